"""What a hidden test is: a call, `f(1, key=2)`, or a call compared with a literal, `f(1) == 3` or `3 == f(1)`.

A call names a function or a class that the reference solution defines at its top level. It runs in the process of the
answer, and its arguments are evaluated there. So that no answer has a say in its own verdict or sees an expected value,
the arguments may name builtins, imports and classes of the reference, the called function itself, and literal constants
of the reference as a whole: `f([LIMIT, 2])`, but not `f(CASES[0])`. Nothing else is a hidden test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from sweet_rl.dialogues.backend.extract_code import NOT_READ
from sweet_rl.sandbox.encode import encode

NO_TEST = "is no hidden test"
FORMS = (
    "A hidden test is a call of what the reference defines, `f(1)`, or such a call compared with a literal, `f(1) == 3`"
)
RUN_TEXTS = {"eval", "exec", "globals", "locals", "vars"}


@dataclass(frozen=True)
class HiddenTest:
    """A hidden test of a task.

    Attributes:
        code: The call, compiled.
        function: Name of what is called.
        names: Names in the arguments.
        literal: Text of the literal (`sandbox.encode`) that the call is compared with; None if it is not compared.
    """

    code: CodeType
    function: str
    names: frozenset[str]
    literal: bytes | None = None


def read_tests(test_cases: Mapping[str, str], reference: str) -> dict[str, HiddenTest]:
    """The hidden tests of a task, by name. Raises ValueError, which names the first one that is none, and says why."""
    tests = {}
    for name, text in test_cases.items():
        try:
            tests[name] = _read(text.strip(), reference)
        except SyntaxError as error:
            raise ValueError(f"{name} {NO_TEST}: it is no Python expression: {error}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"{name} {NO_TEST}: {str(error) or 'it is too long'}") from None
    return tests


def _read(text: str, reference: str) -> HiddenTest:
    call, literal = _sides(ast.parse(text, mode="eval").body)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError("it is neither the call of a name nor such a call == a literal")
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    nodes = [node for part in arguments for node in ast.walk(part)]
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}  # of lambdas and comprehensions
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id not in own]
    _check_names(call.func.id, names, arguments, reference)
    code = compile(ast.Expression(call), "test", "eval", dont_inherit=True)
    return HiddenTest(code, call.func.id, frozenset(node.id for node in names), literal)


def _sides(node: ast.expr) -> tuple[ast.expr, bytes | None]:
    """What is compared with a literal, and the text of the literal; the expression itself if it is no comparison."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        left, right = node.left, node.comparators[0]
        for side, other in ((left, right), (right, left)):
            try:
                return side, encode(ast.literal_eval(other)).encode()
            except (ValueError, TypeError):  # no literal
                continue
    return node, None


def _check_names(function: str, names: list[ast.Name], arguments: list[ast.expr], reference: str) -> None:
    """Raise ValueError if a test may not call the function, or may not name one of the names in its arguments.

    Args:
        function: Name of the function.
        names: Names in its arguments.
        arguments: Its arguments.
        reference: Code of the reference solution. One that is no Python will fail, so no name is checked.
    """
    try:
        defined = _definitions(reference)
    except NOT_READ:
        return
    if function not in defined:
        raise ValueError(f"it calls {function}, which the reference does not define")
    for node in names:
        kind = defined.get(node.id, "function" if node.id in RUN_TEXTS else "class")
        if kind == "function" and node.id != function:
            raise ValueError(f"an argument names {node.id}, which would run code of the answer")
        if kind == "constant" and not any(node in _whole(part) for part in arguments):
            raise ValueError(f"an argument takes a part of {node.id}, and the answer would see the whole")


def _whole(argument: ast.expr) -> Iterator[ast.Name]:
    """The names that are the argument or, if it is a display such as [a, b], one of its items."""
    if isinstance(argument, ast.Name):
        yield argument
    elif isinstance(argument, (ast.Starred, ast.List, ast.Tuple, ast.Set, ast.Dict)):
        for part in ast.iter_child_nodes(argument):
            if isinstance(part, ast.expr):
                yield from _whole(part)


@lru_cache(maxsize=8)
def _definitions(code: str) -> dict[str, str]:
    """What code defines at its top level, by name: a "class", a "constant" (a literal), or a "function" (all else)."""
    kinds: dict[str, str] = {}
    body = ast.parse(code).body
    nodes: list[ast.AST] = [node for node in body if constant(node) is None]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kinds[node.name] = "function"
        elif isinstance(node, ast.ClassDef):
            kinds.setdefault(node.name, "class")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            kinds[node.id] = "function"
        else:
            nodes += ast.iter_child_nodes(node)
    for names, _ in filter(None, map(constant, body)):
        kinds.update((name, "constant") for name in names if name not in kinds)
    return kinds


def prelude(reference: str, names: Set[str]) -> str:
    """Top-level imports and literal constants of the reference that have one of the names; '' if none."""
    try:
        body = ast.parse(reference).body
    except NOT_READ:
        return ""
    statements = []
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            if names and bound & {*names, "*"}:
                statements.append(ast.get_source_segment(reference, node) or "")
        elif found := constant(node):
            value = ast.get_source_segment(reference, found[1])
            statements += [f"{name} = ({value})" for name in found[0] if name in names]
    return "\n".join(statements)


def constant(node: ast.stmt) -> tuple[list[str], ast.expr] | None:
    """The names and the value if a statement does nothing but to give names a literal as their value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    value = getattr(node, "value", None)
    return (names, value) if names and len(names) == len(targets) and value and _is_literal(value) else None


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (*NOT_READ, TypeError):
        return False
    return True
