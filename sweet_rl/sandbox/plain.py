"""Which process the tests of an answer may have, told from its bytecode.

shared: with other answers. Only for code that can name nothing which outlives a test and could be changed, and that
nothing of which runs later: functions of its own without classes, without generators but generator expressions;
attributes only those listed here (methods of builtin types and a few C functions; not `str.format`, which reads
attributes by text), none set; no `type` and no name that reaches by text (`eval`, `getattr`, `globals`, ...) or has
two underscores before it but `__name__` and `__annotations__`; of modules only such as are written in C and keep
nothing that a key could lie about. Whatever is written in Python takes objects of any kind and hands out more than it
should (`Counter.copy(int)` is `type`). What an answer leaves in memory all the same is cleared before the next; where
that does not give the memory back, the process ends (`warm.clear_up`).

answer: all tests of one answer, each in a fresh module. For code with classes or generators of its own, with the listed
functions of other modules, or with those of numpy that compute, which names no module, builtin or cache to change; what
modules keep of earlier calls (`re`, `typing`, addresses) is cleared before each test. No other answer is there: this
keeps the tests of honest code apart. One that wants to may still tell its own earlier tests, by memory that was never
written (numpy's structures), by `str.format`, by functions written in Python.

test: each test by itself, for all other code.

Left out of the modules on purpose because they set or get attributes for their caller: copy, operator,
string.Formatter, functools.update_wrapper, typing.get_type_hints; because they have a state: random, decimal, and of
numpy random, seterr and their like. What numpy reads of an object (`__array_interface__` is an address) must not be of
the answer's making: such code defines no class and passes no arguments by star.

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
    " search split sub subn"
)
NUMPY = (
    "abs absolute add all allclose any append arange argmax argmin argsort argwhere around array array_equal"
    " asarray average bincount bool_ broadcast_to ceil clip column_stack concatenate convolve corrcoef cos"
    " count_nonzero cov cross cumprod cumsum degrees diag diff digitize divide dot dtype e equal exp expand_dims"
    " expm1 eye flip fliplr flipud float32 float64 floor floor_divide full gcd greater greater_equal hstack hypot"
    " identity in1d inf inner int32 int64 integer interp intersect1d isclose isfinite isin isinf isnan kron lcm less"
    " less_equal linalg linspace log log10 log1p log2 logical_and logical_not logical_or logical_xor logspace matmul"
    " max maximum mean median meshgrid min minimum mod multiply nan nan_to_num nanmax nanmean nanmin nanstd nansum"
    " ndim newaxis nonzero norm not_equal ones ones_like outer percentile pi polyfit polyval power prod ptp quantile"
    " radians ravel repeat reshape roll rot90 round searchsorted setdiff1d shape sign sin size sort split sqrt"
    " square squeeze stack std subtract sum swapaxes take tan tanh tile trace transpose tril triu trunc union1d"
    " unique unravel_index var vstack where zeros zeros_like"
)
NUMPY_LINALG = "cond det eig eigh eigvals inv lstsq matrix_power matrix_rank norm pinv qr solve svd LinAlgError"
# Of arrays: not data, ctypes, resize, setflags, tofile, dump, view, setfield.
ARRAY = (
    "T all any argmax argmin argsort astype clip copy cumprod cumsum diagonal dot dtype fill flatten item itemsize max"
    " mean min nbytes ndim nonzero prod ptp ravel repeat reshape round searchsorted shape size sort squeeze std sum"
    " swapaxes take tolist trace transpose var"
)
URLS = "parse_qs parse_qsl quote quote_plus unquote unquote_plus urldefrag urlencode urljoin urlparse urlsplit"
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
    "json": {"dumps", "loads", "JSONDecodeError"},
    "urllib.parse": {"parse", *URLS.split()},  # `parse` of urllib
    "statistics": set(STATISTICS.split()),
    "string": set(STRING.split()),
}
ATTRIBUTES = set().union(
    {"send", "close", "throw", "args", "cache_clear"},
    _public(str, bytes, list, dict, set, frozenset, tuple, int, float, complex, range, *_DATES, *_CONTAINERS),
    _public(re.Pattern, re.Match),
    "scheme netloc path query fragment hostname port geturl".split(),  # of a parsed address
    *MODULES.values(),
) - {"re", "scanner"}  # of patterns, but also modules that urllib and json hold
NUMPY_MODULES = {"numpy": {*NUMPY.split(), "linalg"}, "numpy.linalg": set(NUMPY_LINALG.split())}
# `numpy.cast` was a table that all code shared.
NUMPY_ATTRIBUTES = (ATTRIBUTES - MODULES["typing"]).union(*NUMPY_MODULES.values(), ARRAY.split())
# For a process that is shared: no class is made or changed, and nothing written in Python is called.
SHARED_NEVER = {"type", "super", "object", "id", "hash", "dir", "property", "classmethod", "staticmethod"}
SHARED_UNDERSCORED = {"__name__", "__annotations__"}
_C_MODULES = ("__future__", "math", "cmath", "itertools", "bisect", "datetime", "string")  # the last: constants
SHARED_MODULES = {name: MODULES[name] for name in _C_MODULES}
SHARED_MODULES["collections"] = {"defaultdict", "deque", "OrderedDict"}
SHARED_MODULES["heapq"] = {"heapify", "heappop", "heappush", "heappushpop", "heapreplace"}
SHARED_ATTRIBUTES = set().union(
    _public(str, bytes, list, dict, set, frozenset, tuple, int, float, complex, range, *_DATES),
    _public(collections.defaultdict, collections.deque, collections.OrderedDict),
    *SHARED_MODULES.values(),
) - {"format", "format_map"}
_MATCH_CLASS, _IMPORT = dis.opmap.get("MATCH_CLASS", -1), dis.opmap["IMPORT_NAME"]
_GENERATOR, _ASYNC = 0x20, 0x80 | 0x200  # flags of code objects
_DELEGATE = {dis.opmap.get(name) for name in ("SEND", "GET_YIELD_FROM_ITER", "GET_AWAITABLE", "YIELD_FROM")}
_READS = {name for name in map(dis.opname.__getitem__, dis.hasname) if "ATTR" in name or "METHOD" in name}
_LAST_PLAIN_INTRINSIC = {"CALL_INTRINSIC_1": 6, "CALL_INTRINSIC_2": 1}  # of Python 3.12 on
_CLASS, _STAR_CALL = dis.opmap["LOAD_BUILD_CLASS"], dis.opmap["CALL_FUNCTION_EX"]


def process_for(code: CodeType) -> str:
    """"shared", "answer" or "test", as above, for the tests of a module with this code."""
    parts = list(_parts(code))
    names = {name for part in parts for name in part.co_names}
    operations = {operation for part in parts for operation in part.co_code[::2]}
    if not all(map(_harmless, names)) or _MATCH_CLASS in operations:  # that reads attributes whose names are constants
        return "test"
    never = SHARED_NEVER | (UNDERSCORED - SHARED_UNDERSCORED)
    making = _CLASS in operations or any(map(_is_generator, parts))
    if not names & never and not making and _stays_within(parts, SHARED_MODULES, SHARED_ATTRIBUTES):
        return "shared"
    if any(map(_runs_when_dropped, parts)):
        return "test"
    if _IMPORT not in operations:
        return "answer"
    if names & {"type", "Type"}:
        return "test"
    if any(name.split(".")[0] == "numpy" for name in names):
        plain = all(map(_gives_numpy_only_values, parts))
        within = _stays_within(parts, {**MODULES, **NUMPY_MODULES}, NUMPY_ATTRIBUTES)
        return "answer" if plain and within else "test"
    return "answer" if _stays_within(parts, MODULES, ATTRIBUTES) else "test"


def _parts(code: CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


def _harmless(name: str) -> bool:
    if name in BY_TEXT or name.startswith(INSIDES):
        return False
    return not name.startswith("__") or name in UNDERSCORED


def _is_generator(code: CodeType) -> bool:
    """Whether it is a generator or coroutine other than a generator expression, which has no code of its own to end."""
    of_its_own = code.co_flags & _GENERATOR and code.co_name != "<genexpr>"
    return bool(of_its_own or code.co_flags & _ASYNC)


def _runs_when_dropped(code: CodeType) -> bool:
    """Whether code of it may run when it is thrown away unfinished, which may be in the middle of a later test."""
    handles = bool(getattr(code, "co_exceptiontable", b"unknown")) or bool(_DELEGATE & set(code.co_code[::2]))
    return _is_generator(code) and handles


def _gives_numpy_only_values(code: CodeType) -> bool:
    """Whether it defines no class and passes no `where`, with which numpy leaves memory as it found it."""
    operations = code.co_code[::2]
    if _CLASS in operations or _STAR_CALL in operations or {"NamedTuple", "namedtuple"} & set(code.co_names):
        return False
    return not any("where" in constant for constant in code.co_consts if isinstance(constant, (str, tuple)))


def _stays_within(parts: list[CodeType], modules: dict[str, set[str]], attributes: set[str]) -> bool:
    """Whether it imports only listed modules and names, reads only listed attributes and sets none."""
    return all(_part_stays_within(part, modules, attributes) for part in parts)


def _part_stays_within(code: CodeType, modules: dict[str, set[str]], attributes: set[str]) -> bool:
    if any(isinstance(constant, tuple) and "*" in constant for constant in code.co_consts):
        return False
    recent: list = [None, None]  # arguments of the two instructions before: an import's level and names
    for instruction in dis.get_instructions(code):
        operation, name = instruction.opname, instruction.argval
        if operation == "EXTENDED_ARG":
            continue
        level, recent = recent[0], [recent[1], name]
        if operation == "IMPORT_NAME":
            if name not in modules or level != 0:  # a relative one names a module of `__name__`, which may be any
                return False
        elif operation == "IMPORT_FROM":
            if not any(name in names for names in modules.values()):
                return False
        elif operation.startswith(("STORE_ATTR", "DELETE_ATTR")):
            return False
        elif operation in _READS and name not in attributes:
            return False
        elif operation.startswith("CALL_INTRINSIC") and instruction.arg > _LAST_PLAIN_INTRINSIC[operation]:
            return False  # makes type variables, which run Python code of `typing`
    return True
