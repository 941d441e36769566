"""What an answer is promised works in the sandbox as it does outside: encodings, time zones, modules, threads."""

import encodings.aliases
import os
import pkgutil
import zoneinfo
from datetime import datetime
from importlib.util import find_spec

import pytest

from sweet_rl.dialogues.backend.extract_code import imported_names
from sweet_rl.sandbox.encode import encode
from sweet_rl.sandbox.modules import COMMON_MODULES, STANDARD_MODULES, STANDARD_SUBMODULES
from sweet_rl.sandbox.pool import Pool
from sweet_rl.sandbox.sandbox import Job, available_level, pack_tests
from sweet_rl.sandbox.values import decode

ENCODE = """
import codecs
def f(name):
    for value in ("a\\xe9", "ab", b"a\\xe9"):
        try:
            return bytes(codecs.encode(value, name)).hex()
        except (UnicodeError, TypeError, AssertionError):
            pass
"""
OFFSET = """
from datetime import datetime
from zoneinfo import ZoneInfo
def f(name):
    return [str(datetime(year, 7, 1, tzinfo=ZoneInfo(name)).utcoffset()) for year in (1950, 2000, 2024, 2060)]
"""
THREADS = """
import threading
def f(count):
    found, together = [], threading.Barrier(count, timeout=5)
    def work(number):
        text = str(list(range(20_000)))
        together.wait()
        found.append(down(800) + len(text) * 0 + number)
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)
    threads = [threading.Thread(target=work, args=[number]) for number in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return sorted(found)
"""
IMPORTED = """
import sys
def f(name):
    __import__(name)
    return name in sys.modules
"""


@pytest.fixture(scope="module")
def run():
    level, _ = available_level("auto")
    pool = Pool(level, timeout=5, memory_mb=256, workers=1)

    def values(code: str, arguments: list, imports: set) -> dict:
        tests = pack_tests([compile(f"f({argument!r})", "test", "eval") for argument in arguments])
        outcomes = pool.run("answer", 0, Job([code], tests, len(arguments), ["f"]), imports)
        pairs = zip(arguments, outcomes, strict=True)
        return {name: decode(text) if reason == "value" else text for name, (reason, text) in pairs}

    yield values
    pool.close()


def outside(code: str, arguments: list) -> dict:
    names: dict = {}
    exec(code, names)
    return {name: names["f"](name) for name in arguments}


def test_every_encoding_works(run):
    here = {one.name for one in pkgutil.iter_modules(encodings.__path__)} - {"aliases", "mbcs", "oem", "undefined"}
    names = sorted({*here, "UTF-8-SIG", "iso8859-15", "ibm437", "Base64", "l9"})
    expected = outside(ENCODE, names)
    assert run(ENCODE, names, {"codecs"}) == expected
    assert sum(value is not None for value in expected.values()) > 100


def test_every_time_zone_works(run):
    names = sorted(zoneinfo.available_timezones())[::6]
    if not names:
        pytest.skip("this machine has no time zones")
    found = run(OFFSET, [*names, "UTC"], {"datetime", "zoneinfo"})
    expected = outside(OFFSET, [*names, "UTC"])
    assert found == {name: ["l", *offsets] for name, offsets in expected.items()}
    assert "ZoneInfoNotFoundError" in run(OFFSET, ["Nowhere/At_All"], {"zoneinfo"})["Nowhere/At_All"]
    assert datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("UTC")).utcoffset() is not None


def test_every_listed_module_is_there(run):
    more = [name for names in STANDARD_SUBMODULES.values() for name in names]
    for names in (COMMON_MODULES, STANDARD_MODULES, more):
        names = [name for name in names if find_spec(name)]  # some are not in every Python
        assert run(IMPORTED, names, set(STANDARD_SUBMODULES)) == dict.fromkeys(names, True)


LAZY = {
    "names that are not ASCII": "def f(größe):\n    return [größe, '\\N{BULLET}']",
    "a submodule of a package": "from unittest import mock\nfrom logging import handlers\nfrom wsgiref import util\n"
    "def f(x):\n    return [x, type(mock.Mock()).__name__, handlers.SysLogHandler.__name__, util.guess_scheme({})]",
    "a parser": "import xml.sax, plistlib\ndef f(x):\n    xml.sax.parseString(b'<a/>', xml.sax.ContentHandler())\n"
    "    return [x, plistlib.loads(plistlib.dumps({'a': 1})), exit.__class__.__name__]",
    "a database": "import sqlite3\ndef f(x):\n    return sqlite3.connect(':memory:').execute('select 3').fetchall()",
}
NUMPY = "import numpy as np\ndef f(x):\n    return [np.strings.upper(['a']).tolist(), np.rec.array([(1,)]).tolist()]"
PANDAS = (
    "import pandas as pd\ndef f(x):\n    frame = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\n    print(frame)\n"
    "    return [frame.to_csv(), frame.melt().shape, frame.to_markdown and frame.to_latex.__name__, frame.to_json(),\n"
    "            frame.pivot(index='a', columns='b', values='a').shape, frame.style.__class__.__name__[:0]]"
)


@pytest.mark.parametrize("name", LAZY)
def test_what_is_imported_at_first_use_is_there(run, name):
    assert run(LAZY[name], [1], imported_names(LAZY[name])) == {1: decode(encode(outside(LAZY[name], [1])[1]).encode())}


@pytest.mark.parametrize(("package", "code"), [("numpy", NUMPY), ("pandas", PANDAS)])
def test_what_a_package_loads_at_first_use_is_there(run, package, code):
    pytest.importorskip(package)
    assert run(code, [1], imported_names(code)) == {1: decode(encode(outside(code, [1])[1]).encode())}


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="memory is limited on Linux")
def test_as_many_threads_as_promised_run_together_and_recurse(run):
    assert run(THREADS, [60], {"threading"}) == {60: ["l", *range(800, 860)]}
