"""What a hidden test is: a call, `f(1, key=2)`, or a call compared with a literal, `f(1) == 3`.

A call names a function or a class that the reference solution defines at its top level. It runs in the process of the
answer, together with its arguments. An argument may use builtins, imports of the reference and the called function, or
be a whole literal constant of the reference: `f(LIMIT)`, but not `f(CASES[0])`. Other code of the reference never runs
there, so that an answer cannot read an expected value. Nothing else is a hidden test.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType

from sweet_rl.dialogues.backend.extract_code import NOT_READ
from sweet_rl.sandbox.encode import encode

FORMS = (
    "A hidden test is a call of what the reference defines, `f(1)`, or such a call compared with a literal, `f(1) == 3`"
)
RUN_TEXTS = {"eval", "exec", "globals", "locals", "vars"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class HiddenTest:
    """A hidden test of a task.

    Attributes:
        code: The call, compiled.
        function: Name of what is called.
        literal: Text of the literal (`sandbox.encode`) that the call is compared with; None if it is not compared.
    """

    code: CodeType
    function: str
    literal: bytes | None = None


@dataclass(frozen=True)
class HiddenTests:
    """The hidden tests of a task by name, the function that an answer has to define, and the imports and constants of
    the reference that the arguments name, as code."""

    tests: Mapping[str, HiddenTest]
    function: str
    prelude: str


def read_tests(test_cases: Mapping[str, str], reference: str) -> HiddenTests:
    """The hidden tests of a task. Raises ValueError, which names the first one that is none, and says why."""
    try:
        body = ast.parse(reference).body
        constants, defined = _definitions(body)
    except NOT_READ as error:
        raise ValueError(f"the reference is no Python: {error}") from None
    tests: dict[str, HiddenTest] = {}
    prelude: list[str] = []
    for name, text in test_cases.items():
        try:
            node = ast.parse(text.strip(), mode="eval").body
            literal = None
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq) and _is_literal(node.comparators[-1]):
                literal = encode(ast.literal_eval(node.comparators[-1])).encode()
                node = node.left if len(node.ops) == 1 else node
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                raise ValueError("it is neither the call of a name nor such a call == a literal")
            if node.func.id not in defined:
                raise ValueError(f"it calls {node.func.id}, which the reference does not define")
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            for used in _used_names(arguments):
                if used.id == node.func.id:
                    continue
                if used.id in constants and used in arguments:
                    prelude.append(f"{used.id} = {ast.unparse(constants[used.id])}")
                elif used.id in defined or used.id in RUN_TEXTS:
                    raise ValueError(f"an argument names {used.id}, which is no builtin, import or whole constant")
                elif not hasattr(builtins, used.id):
                    prelude += [ast.unparse(statement) for statement in body if _imports(statement, used.id)]
            code = compile(ast.Expression(node), "test", "eval", dont_inherit=True)
        except NOT_READ as error:
            raise ValueError(f"{name} is no hidden test: {str(error) or 'it is too long'}") from None
        tests[name] = HiddenTest(code, node.func.id, literal)
    called = {test.function for test in tests.values()}
    function = next((name for name in reversed(defined) if name in called), "")
    return HiddenTests(tests, function, "\n".join(dict.fromkeys(prelude)))


def _used_names(arguments: list[ast.expr]) -> list[ast.Name]:
    """The names in arguments, without those of lambdas and comprehensions."""
    nodes = [node for argument in arguments for node in ast.walk(argument)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return [node for node in names if node.id not in own]


def _definitions(body: list[ast.stmt]) -> tuple[dict[str, ast.expr], list[str]]:
    """The literal constants that code defines at its top level, by name, and all names that it defines there."""
    constants: dict[str, ast.expr] = {}
    others: list[str] = []
    for node in body:
        names = list(_bound(node))
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        targets = node.targets if isinstance(node, ast.Assign) else [None]
        if value is not None and _is_literal(value) and not isinstance(targets[0], (ast.Tuple, ast.List)):
            constants |= dict.fromkeys(names, value)
        else:
            others += names
    return {name: value for name, value in constants.items() if name not in others}, [*constants, *others]


def _imports(node: ast.stmt, name: str) -> bool:
    """Whether a statement imports a name."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return False
    return any((alias.asname or alias.name.partition(".")[0]) in (name, "*") for alias in node.names)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement defines outside of functions and classes."""
    if isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (*NOT_READ, TypeError):
        return False
    return True
