"""Which modules a fork server loads for some code: few, because each page of memory makes its forks slower.

Code without imports gets a server without modules, code that imports common modules a server with these. All other
code, also code that may import by other means than the import statement, gets the standard library that a task can
need, and with it what it names of other modules of the standard library and of `PACKAGES`.
"""

import re
import sys

COMMON_MODULES = (
    "__future__", "_strptime", "abc", "bisect", "calendar", "cmath", "collections", "collections.abc", "copy",
    "datetime", "functools", "heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string",
    "time", "types", "typing", "weakref",
)  # fmt: skip
STANDARD_MODULES = (
    *COMMON_MODULES, "array", "ast", "base64", "binascii", "contextlib", "csv", "dataclasses", "decimal", "difflib",
    "enum", "fractions", "hashlib", "html", "inspect", "io", "ipaddress", "keyword", "linecache", "locale", "numbers",
    "os", "pathlib", "pprint", "queue", "secrets", "struct", "textwrap", "threading", "timeit", "traceback",
    "unicodedata", "urllib.parse", "uuid", "warnings", "zlib", "encodings.ascii", "encodings.latin_1", "_pylong",
)  # fmt: skip
PACKAGES = ("bs4", "dateutil", "networkx", "numpy", "pandas", "pytz", "scipy", "sympy")
NEVER_LOADED = {
    "__main__", "antigravity", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "this", "tkinter", "turtle",
    "turtledemo",
}  # fmt: skip
# Words of code that may need a module although no import statement names it.
OTHER_MEANS = re.compile(
    r"__import__|importlib|\b(?:exec|eval|compile|open|encode|decode|help|memoryview|globals|vars|getattr)\b|__\.__"
)
ENCODINGS = re.compile(r"\b(?:codecs|encode|decode|encoding)\b")
PACKAGE = re.compile(rf"\b(?:{'|'.join(PACKAGES)})\b")


def modules_for(names: set[str], text: str = "") -> tuple[str, ...]:
    """Return the modules that a fork server loads for code `text` that imports the modules `names`; "a.*" is a package
    with its submodules."""
    if not OTHER_MEANS.search(text):
        if not names:
            return ()
        if names <= set(COMMON_MODULES):
            return COMMON_MODULES
    wanted = {name.partition(".")[0] for name in names}
    more = (wanted & sys.stdlib_module_names) - NEVER_LOADED - set(STANDARD_MODULES)
    more |= {package for package in PACKAGES if package in wanted} | set(PACKAGE.findall(text))
    if more or ENCODINGS.search(text):
        more.add("encodings")
    if "asyncio" in more:  # asyncio.to_thread
        more.add("concurrent")
    return (*STANDARD_MODULES, *sorted(f"{name}.*" for name in more))
