"""Which modules a fork server loads for some code: few, because each page of memory makes its forks slower.

Code without imports gets a server without modules. All other code, also code that may import by other means than the
import statement, gets the standard library that a task can need, and with it what it imports of other modules of the
standard library and of `PACKAGES`.
"""

import re
import sys

STANDARD_MODULES = (
    "__future__", "_pylong", "_strptime", "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath",
    "collections", "collections.abc", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib",
    "encodings.ascii", "encodings.cp1252", "encodings.latin_1", "encodings.utf_16", "enum", "fractions", "functools",
    "hashlib", "heapq", "html.parser", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "linecache",
    "locale", "math", "numbers", "operator", "os", "pathlib", "pprint", "queue", "random", "re", "secrets",
    "statistics", "string", "struct", "textwrap", "threading", "time", "timeit", "traceback", "types", "typing",
    "unicodedata", "urllib.parse", "uuid", "warnings", "weakref", "zlib",
)  # fmt: skip
PACKAGES = {"bs4", "dateutil", "networkx", "numpy", "pandas", "pytz", "scipy", "sympy"}
NEVER_LOADED = {
    "__main__", "antigravity", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "this", "tkinter", "turtle",
    "turtledemo",
}  # fmt: skip
# Words of code that may need a module although no import statement names it.
OTHER_MEANS = re.compile(
    r"__import__|importlib|\b(?:exec|eval|compile|open|encode|decode|help|memoryview|globals|vars|getattr)\b|__\.__"
)


def modules_for(names: set[str], text: str = "") -> tuple[str, ...]:
    """Return the modules that a fork server loads for code `text` that imports the modules `names`; "a.*" is a package
    with all that it may import later."""
    if not names and not OTHER_MEANS.search(text):
        return ()
    more = {name.partition(".")[0] for name in names} & (sys.stdlib_module_names | PACKAGES)
    more -= NEVER_LOADED.union(STANDARD_MODULES)
    return (*STANDARD_MODULES, *sorted(f"{name}.*" for name in more))
