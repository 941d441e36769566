"""Whether an answer's code can leave anything behind for a later test in the same process, told from its bytecode.

Plain code may run all its tests in one process, each in a fresh module: it names no object that outlives a test and
could be changed. Every other code gets a process of its own for each test, which is slower and needs no proof.

What plain code can name: its own functions and classes, builtin types (immutable) and functions without those that
reach by text (`eval`, `getattr`, `globals`, ...), no name with two underscores before it but a few like `__init__`,
no frame or code attribute; of modules only those below, only the attributes listed here, and then it sets no
attribute at all.
Left out on purpose because they set or get attributes for their caller: copy, operator, string.Formatter,
functools.update_wrapper, typing.get_type_hints; and because they have a state: random, decimal.

Used by the compiling process only, which runs nothing of the answer.
"""

import bisect
import cmath
import collections
import datetime
import dis
import heapq
import itertools
import math
import re
from types import CodeType

BY_TEXT = {
    "breakpoint", "compile", "delattr", "eval", "exec", "exit", "getattr", "globals", "help", "input", "locals",
    "memoryview", "open", "quit", "setattr", "vars",
}  # fmt: skip
UNDERSCORED = {"__name__", "__init__", "__main__", "__annotations__", "__doc__", "__module__", "__qualname__"}
INSIDES = ("gi_", "cr_", "ag_", "tb_", "f_", "co_", "func_")
TYPING = (
    "Any Callable ClassVar Deque DefaultDict Dict Final FrozenSet Generator Generic Iterable Iterator List Literal"
    " Mapping MutableMapping NamedTuple NoReturn Optional Sequence Set Tuple Type TypeVar Union cast"
)
RE = (
    "A ASCII DOTALL I IGNORECASE M MULTILINE Match Pattern S VERBOSE X compile escape findall finditer fullmatch match"
    " search split sub subn error"
)
STATISTICS = "mean median mode stdev variance pstdev pvariance median_low median_high fmean geometric_mean"
STRING = "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation printable whitespace"


def _public(*owners) -> set[str]:
    return {name for owner in owners for name in dir(owner) if not name.startswith("_")}


_DATES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
_CONTAINERS = (collections.Counter, collections.defaultdict, collections.deque, collections.OrderedDict)
MODULES = {
    "__future__": {"annotations"},
    "math": _public(math),
    "cmath": _public(cmath),
    "itertools": _public(itertools),
    "heapq": {name for name in _public(heapq) if name.startswith(("heap", "merge", "nl", "ns"))},
    "bisect": {name for name in _public(bisect) if name.startswith(("bisect", "insort"))},
    "datetime": {"datetime", "date", "time", "timedelta", "timezone"},
    "collections": {"Counter", "defaultdict", "deque", "OrderedDict", "namedtuple"},
    "functools": {"reduce", "lru_cache", "cache", "partial", "cmp_to_key"},
    "re": set(RE.split()),
    "typing": set(TYPING.split()),
    "statistics": set(STATISTICS.split()),
    "string": set(STRING.split()),
}
ATTRIBUTES = set().union(
    {"send", "close", "throw", "args", "cache_clear", "cache_info", "__init__"},
    _public(str, bytes, list, dict, set, frozenset, tuple, int, float, complex, range, *_DATES, *_CONTAINERS),
    _public(re.Pattern, re.Match),
    *MODULES.values(),
)
_MATCH_CLASS, _IMPORT = dis.opmap.get("MATCH_CLASS", -1), dis.opmap["IMPORT_NAME"]


def is_plain(code: CodeType) -> bool:
    """Whether the tests of a module with this code cannot see each other in one process. False when in doubt."""
    importing = False
    for part in _parts(code):
        if not all(map(_harmless, part.co_names)):
            return False
        operations = part.co_code[::2]
        if _MATCH_CLASS in operations:  # reads attributes whose names are constants
            return False
        importing = importing or _IMPORT in operations
    return not importing or all(map(_imports_harmless, _parts(code)))


def _parts(code: CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


def _harmless(name: str) -> bool:
    if name in BY_TEXT or name.startswith(INSIDES):
        return False
    return not name.startswith("__") or name in UNDERSCORED


def _imports_harmless(code: CodeType) -> bool:
    """For code that imports: only listed modules and attributes, nothing set, no star."""
    if any(isinstance(constant, tuple) and "*" in constant for constant in code.co_consts):
        return False
    for instruction in dis.get_instructions(code):
        operation, name = instruction.opname, instruction.argval
        if operation == "IMPORT_NAME":
            if name not in MODULES:
                return False
        elif operation == "IMPORT_FROM":
            if not any(name in names for names in MODULES.values()):
                return False
        elif operation.startswith(("STORE_ATTR", "DELETE_ATTR")):
            return False
        elif ("ATTR" in operation or "METHOD" in operation) and name not in ATTRIBUTES:
            return False
    return True
