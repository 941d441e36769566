"""Load modules so that nothing has to be imported later: once an answer runs, it has no files.

Packages import parts of themselves when these are first used, so their submodules are imported too and common uses are
called once. Loaded by the fork server (`fork_server.py`), which knows nothing of the package.
"""

import sys

KEPT: list = []  # what a library's cache holds only weakly


def load(names: list[str]) -> None:
    """Import modules. "a.*" stands for a package that is also used once, or for all of one of the standard library."""
    for name in names:
        package = name.removesuffix(".*")
        _import(package, with_submodules=name != package and package in sys.stdlib_module_names)
        if name != package and package in WARM_UPS and package in sys.modules:
            try:
                WARM_UPS[package]()
            except Exception:  # noqa: BLE001 - another version of the package; what is lacking is counted
                continue


def _import(name: str, with_submodules: bool) -> None:
    try:
        __import__(name)
    except BaseException:  # noqa: BLE001 - an answer that imports it fails with its name
        return
    if with_submodules and hasattr(sys.modules[name], "__path__"):
        from pkgutil import iter_modules  # here, because each module makes the forks of small servers slower

        for module in iter_modules(sys.modules[name].__path__):
            if module.name != "__main__":  # a program, which importing would run
                _import(f"{name}.{module.name}", with_submodules)


def _numpy() -> None:
    import numpy as np

    for name in dir(np):  # some are loaded when they are first asked for
        getattr(np, name)
    np.random.default_rng(0).normal(size=2), np.random.rand(2), np.random.seed(None)
    np.percentile([1, 2, 3], 50), np.linalg.svd([[1.0, 2.0]]), str(np.arange(3))


def _pandas() -> None:
    import io
    import zoneinfo._zoneinfo

    import pandas as pd
    import pandas.tseries.holiday  # noqa: F401

    for kind in (zoneinfo.ZoneInfo, zoneinfo._zoneinfo.ZoneInfo):  # pandas uses its twin in Python too
        KEPT.extend(map(kind, zoneinfo.available_timezones()))
    days = pd.date_range("2020-01-01", periods=2)
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": days})
    frame.describe(), frame.info(buf=io.StringIO()), str(frame), frame.to_dict("list"), frame.to_csv(), frame.to_json()
    frame.groupby("b").sum(numeric_only=True), frame.merge(frame, on="a"), frame.query("a > 1"), frame.to_html()
    frame.pivot_table(index="b", values="a"), frame.set_index("c").resample("2D").sum(), frame["b"].str.upper()
    frame.nlargest(1, "a"), frame["a"].nlargest(1), frame.to_records()
    pd.crosstab(frame["a"], frame["b"]), pd.read_csv(io.StringIO("a,b\n1,2"))


def _scipy() -> None:
    import scipy

    for name in dir(scipy):
        getattr(scipy, name)


def _sympy() -> None:
    import sympy.abc

    x = sympy.Symbol("x")
    sympy.solve(x**2 - 4, x), sympy.simplify((x**2 - 1) / (x - 1)), sympy.integrate(x, x), sympy.diff(x**2, x)
    sympy.Matrix([[1, x]]).T, sympy.latex(x), sympy.sympify("x + 1"), sympy.factorint(12)


def _zoneinfo() -> None:
    import zoneinfo

    KEPT.extend(map(zoneinfo.ZoneInfo, zoneinfo.available_timezones()))


def _pytz() -> None:
    import pytz

    KEPT.extend(map(pytz.timezone, pytz.all_timezones))


def _dateutil() -> None:
    from dateutil import easter, parser, relativedelta, rrule, tz, utils, zoneinfo  # noqa: F401

    KEPT.extend(map(tz.gettz, zoneinfo.get_zonefile_instance().zones))


def _bs4() -> None:
    import bs4

    bs4.BeautifulSoup("<p class='a'>x</p>", "html.parser").select("p.a")


WARM_UPS = {
    "bs4": _bs4, "dateutil": _dateutil, "numpy": _numpy, "pandas": _pandas,
    "pytz": _pytz, "scipy": _scipy, "sympy": _sympy, "zoneinfo": _zoneinfo,
}  # fmt: skip
