"""Take a test apart: what runs with the answer, and what is said about its values.

Of `abs(f(1) - 5) < 1e-6` only `f(1)` runs in the answer's process. The rest, `abs(_value0_0 - 5) < 1e-6`, runs in a
process that has never held an answer, on the value as plain data. So no object of an answer has a say in its verdict.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sweet_rl.sandbox.modules import COMMON_MODULES

# What a rest may name: nothing that runs a text as code, because the text could be the answer's.
BUILTINS = frozenset(
    "abs all any ascii bin bool bytes chr complex dict divmod enumerate filter float format frozenset hash hex int"
    " isinstance iter len list map max min next oct ord pow range repr reversed round set slice sorted str sum tuple"
    " type zip".split()
)
MODULES = {*COMMON_MODULES, "decimal", "fractions", "numpy"}
NOT_READ = (SyntaxError, ValueError, RecursionError, MemoryError)  # what ast.parse raises


@dataclass(frozen=True)
class Parts:
    """The parts of a test.

    Attributes:
        asked: Expressions that run with the answer; usually one call.
        rest: Expression of the names `values`; None if the one value is compared with the reference's.
        values: Names of the values of `asked` in `rest`.
        held: Constants of the reference that `asked` names.
        arguments: Those of them that are arguments as they are.
        compared: Constants that the test names elsewhere.
    """

    asked: list[str]
    rest: str | None = None
    values: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    arguments: frozenset[str] = frozenset()
    compared: frozenset[str] = frozenset()


def given_away(tests: Iterable[Parts]) -> set[str]:
    """Constants that the answer's process would hold and a test compares with, although they are no argument of it."""
    tests = list(tests)
    held = {name for parts in tests for name in parts.held}
    return {name for parts in tests for name in parts.compared & held - parts.arguments}


def take_apart(test: str, reference: str, prelude: str, number: int, whole: bool = False) -> Parts:
    """The parts of a test.

    What is asked of the answer is each call of a name that the reference defines, with the attributes that its classes
    define: `f(1)`, `f(1)(2)`, `Account(5).add(2).balance`. An item of a constant, as in `f(CASES[0][0])`, is replaced
    by its value, so that the answer's process does not hold the other items.

    Args:
        test: Python expression.
        reference: Code of the reference solution.
        prelude: Imports and constants that the test names.
        number: Number of the test, which makes the names of its values unique.
        whole: Whether `f(1) == 5` has a rest. Otherwise the value of `f(1)` is compared with the reference's.

    Raises:
        ValueError: The test does not come apart; the text says why.
        LookupError: The test has nothing to do with the reference.
    """
    test = test.strip()
    try:
        own, attributes = _definitions(reference)
    except (SyntaxError, ValueError):
        return Parts([test])  # the reference will fail it
    except (RecursionError, MemoryError):
        raise ValueError("the reference is too deep") from None
    known, constants = _imported(prelude), _constants(prelude)
    try:
        tree = ast.parse(test, mode="eval").body
        bound = _bound(tree)
        splitter = _Splitter(own - known, attributes, bound, constants, f"_value{number}_")
        body = splitter.visit(tree)
        asked, rest = splitter.asked, ast.unparse(body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"it is no Python expression ({error})") from None
    if not asked:
        if _names(tree) & own:
            raise ValueError("it names what the reference defines but does not call it")
        raise LookupError("it defines nothing that the test calls")
    names = splitter.held, splitter.arguments, _names(body) & constants.keys() - bound
    held, arguments, compared = map(frozenset, names)
    if isinstance(body, ast.Name):
        return Parts(asked, held=held, arguments=arguments)
    values = tuple(map(splitter.name, range(len(asked))))
    if not whole and len(asked) == 1 and _is_equality(body, values[0]):
        return Parts(asked, held=held, arguments=arguments, compared=compared)
    unknown = _names(body) - {*values, *bound, *known, *(BUILTINS - own)}
    if unknown:
        raise ValueError(f"what it does with the answer's values names {', '.join(sorted(unknown))}")
    return Parts(asked, rest, values, held, arguments, compared)


class _Splitter(ast.NodeTransformer):
    """Replaces what is asked of the answer by the names of its values."""

    def __init__(self, own: set[str], attributes: set[str], bound: set[str], constants: dict, prefix: str):
        self.own, self.attributes, self.bound, self.prefix = own, attributes, bound, prefix
        self.constants = constants
        self.asked: list[str] = []
        self.held: set[str] = set()
        self.arguments: set[str] = set()

    def name(self, place: int) -> str:
        return f"{self.prefix}{place}"

    def visit(self, node: ast.AST) -> ast.AST:
        if not self._is_asked(node):
            return self.generic_visit(node)
        used = (_names(node) - _bound(node)) & self.bound
        if used:
            raise ValueError(f"a call of the answer depends on {', '.join(sorted(used))}, which the test itself binds")
        constants = {name: value for name, value in self.constants.items() if name not in _bound(node)}
        node = _Items(constants).visit(node)
        self.held |= _names(node) & constants.keys()
        calls = (one for one in ast.walk(node) if isinstance(one, ast.Call) and self._is_asked(one))
        self.arguments |= {name for call in calls for part in (*call.args, *call.keywords) for name in _whole(part)}
        self.asked.append(ast.unparse(node))
        return ast.Name(self.name(len(self.asked) - 1), ast.Load())

    def _is_asked(self, node: ast.AST) -> bool:
        called = False
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Call):
                called, node = True, node.func
            elif isinstance(node, ast.Attribute) and node.attr in self.attributes:
                node = node.value
            else:
                return False
        return called and node.id in self.own


class _Items(ast.NodeTransformer):
    """Replaces the items and slices of constants by their values."""

    def __init__(self, constants: dict):
        self.constants = constants

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        try:
            value = self._value(node)
            found = ast.parse(repr(value), mode="eval").body
            if ast.literal_eval(found) == value:
                return found
        except (*NOT_READ, LookupError, TypeError):  # no item, or none that can be written
            pass
        return self.generic_visit(node)

    def _value(self, node: ast.AST):
        if not isinstance(node, ast.Subscript):
            return self.constants[node.id if isinstance(node, ast.Name) else ""]
        place, value = node.slice, self._value(node.value)
        if isinstance(place, ast.Slice):
            bounds = (place.lower, place.upper, place.step)
            return value[slice(*(None if one is None else ast.literal_eval(one) for one in bounds))]
        return value[ast.literal_eval(place)]


def _whole(argument: ast.AST) -> Iterator[str]:
    """The names that are an argument, or a part of one that is a display."""
    if isinstance(argument, ast.Name):
        yield argument.id
    elif isinstance(argument, (ast.keyword, ast.Starred, ast.List, ast.Tuple, ast.Set, ast.Dict)):
        for part in ast.iter_child_nodes(argument):
            yield from _whole(part)


def _is_equality(body: ast.AST, value: str) -> bool:
    """Whether it is `value == ...` or `... == value`."""
    if not isinstance(body, ast.Compare) or len(body.ops) != 1 or not isinstance(body.ops[0], ast.Eq):
        return False
    return any(isinstance(side, ast.Name) and side.id == value for side in (body.left, body.comparators[0]))


@lru_cache(maxsize=8)
def _definitions(code: str) -> tuple[set[str], set[str]]:
    """The names that code defines at its top level, and the attributes that its classes define."""
    tree = ast.parse(code)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    attributes = {name for one in classes for name in _defined(one.body)}
    for node in (node for one in classes for node in ast.walk(one)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            attributes.add(node.attr)
    return set(_defined(tree.body)), attributes


def _defined(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements define in their own scope."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            yield from _defined(ast.iter_child_nodes(node))


def _imported(prelude: str) -> set[str]:
    """The names that a prelude defines, without modules that are not in `MODULES` and what comes from them."""
    names: set[str] = set()
    try:
        body = ast.parse(prelude).body
    except NOT_READ:  # what looked like an import was a line of a text
        return names
    for node in body:
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name).split(".")[0] for one in node.names if one.name.split(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom):
            names |= {one.asname or one.name for one in node.names if str(node.module).split(".")[0] in MODULES}
        else:
            names |= set(_defined([node]))
    return names


def _constants(prelude: str) -> dict:
    """The constants that a prelude defines, by name; None for one whose value is not written out."""
    constants: dict = {}
    try:
        body = ast.parse(prelude).body
    except NOT_READ:
        return constants
    for node in body:
        if isinstance(node, ast.Assign):
            try:
                value = ast.literal_eval(node.value)
            except (*NOT_READ, TypeError):
                value = None
            constants |= dict.fromkeys(_defined([node]), value)
    return constants


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _bound(node: ast.AST) -> set[str]:
    """The names that an expression binds itself: in comprehensions, in lambdas, by `:=`."""
    nodes = list(ast.walk(node))
    names = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return names | {one.arg for one in nodes if isinstance(one, ast.arg)}
