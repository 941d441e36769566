"""Which modules a warm process imports before it is confined: few, because each page of memory makes its forks slower.

At strict that only saves time: an answer imports all that is installed. At seccomp, and where the packages cannot be
read after confinement, it has nothing else, so it is run again with what it lacked (`pool.py`): with a few names from
the messages of its errors, which are its own words, and only of packages that its process could not read.

Code without imports gets a process without modules, code that imports common modules a process with these. All other
code, also code that may import by other means than the import statement, gets the standard library that a task can
need.
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
    "_pylong", "_bz2", "_lzma", "_sqlite3", "_ssl", "_uuid", "pyexpat", "zlib",
)  # fmt: skip
# What extension modules need from outside of the interpreter's folders, as do the last modules of the list above.
SHARED_LIBRARIES = (
    "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libz.so.1", "libgcc_s.so.1",
    "libstdc++.so.6",
)  # fmt: skip
EVERYTHING = (*STANDARD_MODULES, *SHARED_LIBRARIES)
# Loaded only for code that uses an encoding that is not among those above.
ENCODINGS = tuple(f"encodings.{one.name}" for one in pkgutil.iter_modules(encodings.__path__))
# Modules that a package imports only when it is used, after confinement.
STANDARD_SUBMODULES = {
    "concurrent": ("concurrent.futures", "concurrent.futures.thread"),
    "email": ("email.message", "email.parser", "email.utils", "email.mime.text"),
    "xml": ("xml.etree.ElementTree", "xml.dom.minidom", "xml.dom.expatbuilder", "xml.sax", "xml.sax.expatreader"),
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
KNOWN_PACKAGES = THIRD_PARTY_MODULES.keys() | sys.stdlib_module_names
NEVER_LOADED = {
    "antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "lib2to3", "ensurepip", "test",
}  # fmt: skip
# Words of code that may need a module although no import statement names it.
LOADS_BY_OTHER_MEANS = re.compile(
    r"__import__|importlib|\b(?:exec|eval|compile|open|encode|decode|help|memoryview|globals|vars|getattr)\b|__\.__"
)


def modules_for(names: set[str], text: str = "") -> tuple[str, ...]:
    """The modules, and the shared libraries, that a warm process loads for code `text` that imports `names`."""
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
            extra.update(THIRD_PARTY_MODULES[top], {name})
        elif top in sys.stdlib_module_names and top not in NEVER_LOADED and name not in STANDARD_MODULES:
            if name not in sys.builtin_module_names:
                extra.update({top, name, *STANDARD_SUBMODULES.get(top, ())})
    return (*EVERYTHING, *sorted(extra))
