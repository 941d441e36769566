"""Whether an answer's code can leave anything behind for a later test in the same process, told from its bytecode.

Plain code may run all its tests in one process, each in a fresh module: it names no object that outlives a test and
could be changed. Every other code gets a process of its own for each test, which is slower and needs no proof.

What plain code can name: its own functions and classes, builtin types (immutable) and functions without those that
reach by text (`eval`, `getattr`, `globals`, ...), no name with two underscores before it but a few like `__init__`,
no frame or code attribute; of modules only those below, only the attributes listed here, and then it sets no
attribute at all. Nor does it then call `type`, which makes classes with any method: `re`, `strptime` and others keep
what they have worked out by its argument, and an argument that lies about what it equals would be found by others.
A process of such code is shared with other answers; not so with numpy, which is large and no code of ours: its process
is the answer's own.

Left out on purpose because they set or get attributes for their caller: copy, operator, string.Formatter,
functools.update_wrapper, typing.get_type_hints; and because they have a state: random, decimal.

Of numpy plain code has the functions that compute, and none that has a state (random, seterr), touches files, or shows
memory that nothing was written to (empty, pad). What numpy reads of an object (`__array_interface__` is an address)
must not be of the answer's making, so such code defines no class and passes no arguments by star.

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
    {"send", "close", "throw", "args", "cache_clear", "cache_info", "__init__"},
    _public(str, bytes, list, dict, set, frozenset, tuple, int, float, complex, range, *_DATES, *_CONTAINERS),
    _public(re.Pattern, re.Match),
    "scheme netloc path query fragment hostname port geturl".split(),  # of a parsed address
    *MODULES.values(),
) - {"re", "scanner"}  # of patterns, but also modules that urllib and json hold
NUMPY_MODULES = {"numpy": {*NUMPY.split(), "linalg"}, "numpy.linalg": set(NUMPY_LINALG.split())}
# `numpy.cast` was a table that all code shared.
NUMPY_ATTRIBUTES = (ATTRIBUTES - MODULES["typing"]).union(*NUMPY_MODULES.values(), ARRAY.split())
_MATCH_CLASS, _IMPORT = dis.opmap.get("MATCH_CLASS", -1), dis.opmap["IMPORT_NAME"]
_CLASS, _STAR_CALL = dis.opmap["LOAD_BUILD_CLASS"], dis.opmap["CALL_FUNCTION_EX"]


def process_for(code: CodeType) -> str:
    """Which process the tests of a module with this code may have.

    "shared": one for all of them and for other answers; "answer": one for all of them; "test": one each, for all code
    that is not known to be plain.
    """
    importing, numpy, makes_types = False, False, False
    for part in _parts(code):
        if not all(map(_harmless, part.co_names)):
            return "test"
        operations = part.co_code[::2]
        if _MATCH_CLASS in operations:  # reads attributes whose names are constants
            return "test"
        importing = importing or _IMPORT in operations
        makes_types = makes_types or "type" in part.co_names
        numpy = numpy or any(name.split(".")[0] == "numpy" for name in part.co_names)
    if importing and makes_types:
        return "test"
    if importing and numpy:
        modules, attributes = {**MODULES, **NUMPY_MODULES}, NUMPY_ATTRIBUTES
        plain = all(_gives_numpy_only_values(part) for part in _parts(code))
        return "answer" if plain and _imports_only(code, modules, attributes) else "test"
    return "shared" if not importing or _imports_only(code, MODULES, ATTRIBUTES) else "test"


def _parts(code: CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


def _harmless(name: str) -> bool:
    if name in BY_TEXT or name.startswith(INSIDES):
        return False
    return not name.startswith("__") or name in UNDERSCORED


def _gives_numpy_only_values(code: CodeType) -> bool:
    """Whether it defines no class and passes no `where`, with which numpy leaves memory as it found it."""
    operations = code.co_code[::2]
    if _CLASS in operations or _STAR_CALL in operations or {"NamedTuple", "namedtuple"} & set(code.co_names):
        return False
    return not any("where" in constant for constant in code.co_consts if isinstance(constant, (str, tuple)))


def _imports_only(code: CodeType, modules: dict[str, set[str]], attributes: set[str]) -> bool:
    """For code that imports: only listed modules and attributes, nothing set, no star."""
    return all(_part_imports_only(part, modules, attributes) for part in _parts(code))


def _part_imports_only(code: CodeType, modules: dict[str, set[str]], attributes: set[str]) -> bool:
    if any(isinstance(constant, tuple) and "*" in constant for constant in code.co_consts):
        return False
    for instruction in dis.get_instructions(code):
        operation, name = instruction.opname, instruction.argval
        if operation == "IMPORT_NAME":
            if name not in modules:
                return False
        elif operation == "IMPORT_FROM":
            if not any(name in names for names in modules.values()):
                return False
        elif operation.startswith(("STORE_ATTR", "DELETE_ATTR")):
            return False
        elif ("ATTR" in operation or "METHOD" in operation) and name not in attributes:
            return False
    return True
