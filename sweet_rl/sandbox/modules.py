"""Which modules a warm process holds for a text: few, because every page of them makes each of its forks slower.

Nothing can be loaded once the process has shut itself in. So a text without imports gets a process with none, one
that imports the usual things a process with those, and any other, also one that might import by other means than the
statement, all of the standard library that code for a task can want.
"""

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
    "urllib.parse", "uuid", "warnings", "weakref", "zoneinfo", "encodings.ascii", "encodings.latin_1",
    "encodings.idna", "encodings.utf_16", "encodings.cp1252", "encodings.hex_codec", "encodings.rot_13", "linecache",
    "_pylong",
)  # fmt: skip
# What these load only when they are used, when it is too late.
STANDARD_SUBMODULES = {
    "concurrent": ("concurrent.futures", "concurrent.futures.thread"),
    "email": ("email.message", "email.parser", "email.utils", "email.mime.text"),
    "multiprocessing": ("multiprocessing.dummy", "multiprocessing.pool"),
    "xml": ("xml.etree.ElementTree", "xml.dom.minidom", "xml.sax"),
}
THIRD_PARTY_MODULES = {
    "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.polynomial"),
    "pandas": ("numpy", "pandas", "pandas.tseries.offsets"),
    "scipy": (
        "numpy", "scipy", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.linalg", "scipy.signal"
    ),
    "dateutil": ("dateutil", "dateutil.parser", "dateutil.relativedelta", "dateutil.rrule", "dateutil.tz"),
    "pytz": ("pytz",),
    "sympy": ("sympy",),
    "networkx": ("networkx",),
}
NEVER_LOADED = {
    "antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "lib2to3", "ensurepip", "test",
}  # fmt: skip
# Words of code that may need a module without an import statement.
LOADS_BY_OTHER_MEANS = re.compile(
    r"__import__|importlib|\b(?:exec|eval|compile|open|encode|decode|help|memoryview|globals|vars|getattr)\b|__\w+__\.__"
)


def modules_for(names: set[str], text: str = "") -> tuple[str, ...]:
    """The modules that a warm process must load for code that imports `names` and says `text`."""
    if not LOADS_BY_OTHER_MEANS.search(text):
        if not names:
            return ()
        if names <= set(COMMON_MODULES):
            return COMMON_MODULES
    extra = set()
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
