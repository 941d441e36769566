"""What an answer is promised works in the sandbox as it does outside: encodings, time zones, modules, threads."""

import encodings.aliases
import os
import pkgutil
import zoneinfo
from datetime import datetime
from importlib.util import find_spec

import pytest

from sweet_rl.isolation.sandbox.modules import COMMON_MODULES, STANDARD_MODULES, STANDARD_SUBMODULES
from sweet_rl.isolation.sandbox.pool import Pool
from sweet_rl.isolation.sandbox.sandbox import Job, available_level, pack_tests
from sweet_rl.isolation.sandbox.values import decode

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


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="memory is limited on Linux")
def test_as_many_threads_as_promised_run_together_and_recurse(run):
    assert run(THREADS, [60], {"threading"}) == {60: ["l", *range(800, 860)]}
