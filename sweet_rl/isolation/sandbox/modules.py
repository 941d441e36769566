"""Which modules a warm process imports before it is confined: few, because each page of memory makes its forks slower.

Nothing can be imported from disk after confinement. Code without imports gets a process without modules, code that
imports common modules a process with these. All other code, also code that may import by other means than the import
statement, gets all of the standard library that a task can need.
"""

import encodings
import pkgutil
import re
import sys

COMMON_MODULES = (
    "__future__", "_strptime", "bisect", "calendar", "cmath", "collections", "collections.abc", "copy", "datetime",
    "functools", "heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "time",
    "typing",
)  # fmt: skip
STANDARD_MODULES = (
    "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "_strptime", "decimal", "difflib", "enum", "fractions",
    "functools", "hashlib", "heapq", "html", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "locale",
    "math", "numbers", "operator", "os", "pathlib", "pprint", "queue", "random", "re", "secrets", "statistics",
    "string", "struct", "textwrap", "threading", "time", "timeit", "traceback", "types", "typing", "unicodedata",
    "urllib.parse", "uuid", "warnings", "weakref", "encodings.ascii", "encodings.latin_1",
    "encodings.idna", "encodings.utf_16", "encodings.cp1252", "encodings.hex_codec", "encodings.rot_13", "linecache",
    "_pylong",
)  # fmt: skip
# Loaded only for code that uses an encoding that is not among those above.
ENCODINGS = tuple(f"encodings.{one.name}" for one in pkgutil.iter_modules(encodings.__path__))
# Modules that a package imports only when it is used, after confinement.
STANDARD_SUBMODULES = {
    "concurrent": ("concurrent.futures", "concurrent.futures.thread"),
    "email": ("email.message", "email.parser", "email.utils", "email.mime.text"),
    "xml": ("xml.etree.ElementTree", "xml.dom.minidom", "xml.sax"),
}
THIRD_PARTY_MODULES = {
    "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.polynomial"),
    "pandas": ("numpy", "pandas", "pandas.tseries.offsets"),
    "scipy": ("numpy", "scipy", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.linalg", "scipy.signal"),
    "dateutil": ("dateutil", "dateutil.parser", "dateutil.relativedelta", "dateutil.rrule", "dateutil.tz"),
    "pytz": ("pytz",),
    "sympy": ("sympy",),
    "networkx": ("networkx",),
}
NEVER_LOADED = {
    "antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "lib2to3", "ensurepip", "test",
}  # fmt: skip
# Words of code that may need a module although no import statement names it.
LOADS_BY_OTHER_MEANS = re.compile(
    r"__import__|importlib|\b(?:exec|eval|compile|open|encode|decode|help|memoryview|globals|vars|getattr)\b|__\.__"
)


def modules_for(names: set[str], text: str = "") -> tuple[str, ...]:
    """The modules that a warm process must import for code `text` that imports `names`."""
    if not LOADS_BY_OTHER_MEANS.search(text):
        if not names:
            return ()
        if names <= set(COMMON_MODULES):
            return COMMON_MODULES
    extra: set[str] = set()
    for name in names:
        top = name.split(".")[0]
        if "__main__" in name:  # a program, which importing would run
            continue
        if top in THIRD_PARTY_MODULES:
            extra.update(THIRD_PARTY_MODULES[top])
        elif top in sys.stdlib_module_names and top not in NEVER_LOADED and name not in STANDARD_MODULES:
            if name not in sys.builtin_module_names:
                extra.update({top, name, *STANDARD_SUBMODULES.get(top, ())})
    return (*STANDARD_MODULES, *sorted(extra))
