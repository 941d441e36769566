# ruff: noqa: E501
"""What honest code does with modules works in the sandbox as it does outside, though it has no files there."""

import pytest

from sweet_rl.dialogues.backend.extract_code import imported_names
from sweet_rl.sandbox.encode import encode
from sweet_rl.sandbox.modules import STANDARD_MODULES, modules_for
from sweet_rl.sandbox.sandbox import Job, Pool, pack_tests

CALL = compile("f(3)", "test", "eval")
HONEST = {
    "dates": "from datetime import datetime\ndef f(x): return datetime.strptime(f'2024-01-0{x}', '%Y-%m-%d').date()",
    "time zones": "from zoneinfo import ZoneInfo\nfrom datetime import datetime\n"
    "def f(x): return datetime(2024, 7, x, tzinfo=ZoneInfo('Asia/Tokyo')).utcoffset()",
    "encodings": "def f(x): return ['e'.encode(name) for name in ('utf-8', 'utf-16', 'ascii', 'latin-1', 'cp1252')]",
    "other encodings": "import encodings\ndef f(x): return ['e'.encode(name) for name in ('cp437', 'idna')]",
    "names that are not ASCII": "def f(größe): return [größe, '\\N{BULLET}']",
    "statistics": "import statistics\ndef f(x): return statistics.stdev([1, 2, x]), statistics.NormalDist(0, 1).cdf(x)",
    "chance": "import random\ndef f(x): return random.Random(x).sample(range(100), 5)",
    "decimals": "from decimal import Decimal\ndef f(x): return Decimal('2.675').quantize(Decimal('0.01'))",
    "dataclasses": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\ndef f(x): return A(x)",
    "a submodule": "from html import parser\nfrom unittest import mock\nfrom logging import handlers\nimport xml.etree.ElementTree as tree\n"
    "def f(x): return parser.__name__, mock.Mock(return_value=x)(), handlers.DEFAULT_UDP_LOGGING_PORT, tree.fromstring('<a/>').tag",
    "a database": "import sqlite3\ndef f(x): return sqlite3.connect(':memory:').execute('select 3').fetchall()",
    "a module by its name": "import importlib\ndef f(x): return importlib.import_module('statistics').mean([1, x])",
    "what it prints": "import logging, warnings\ndef f(x):\n    print(x)\n    logging.warning('a')\n    warnings.warn('a')\n"
    "    return x",
    "numpy": "import numpy as np\nfrom numpy import random\ndef f(x): return [np.percentile([1, 2, x], 75), np.eye(2),\n"
    "    np.random.RandomState(0).rand(2), np.strings.upper(['a']), np.rec.array([(1,)]).tolist(), np.fft.fft([1, x]),\n"
    "    np.ma.array([1, 2], mask=[0, 1]).sum(), np.polyfit([0, 1], [0, x], 1).round(6), np.datetime64('2020-01-01')]",
    "pandas": "import io\nimport pandas as pd\ndef f(x):\n"
    "    d = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y'], 'c': pd.date_range('2020-01-01', periods=2)})\n"
    "    return [d, d['a'], d.describe(), d.to_dict('list'), str(d), d.to_csv(), d.to_json(), d.melt('a').shape,\n"
    "            d.groupby('b')['a'].sum(), d.pivot_table(index='b', values='a'), pd.concat([d, d]), pd.cut(d['a'], 2).name,\n"
    "            d.set_index('c').resample('2D')['a'].sum(), pd.read_csv(io.StringIO('a\\n1')), d.to_records().tolist(),\n"
    "            d['c'].dt.tz_localize('Asia/Tokyo').dt.strftime('%d %Z'), pd.qcut([1, 2, x], 2, labels=False),\n"
    "            pd.json_normalize({'a': {'b': 1}}), d.nlargest(1, 'a'), pd.NaT, pd.NA, d.merge(d, on='a').shape, d.eval('a * 2')]",
    "scipy": "from scipy import stats, optimize\nimport scipy.spatial.distance as d\n"
    "def f(x): return stats.norm.cdf(0), round(optimize.brentq(lambda v: v * v - x, 0, 2), 6), d.euclidean([0], [x])",
    "dateutil": "from dateutil import parser, relativedelta\n"
    "def f(x): return parser.parse('Jan 2 2024') + relativedelta.relativedelta(months=x)",
    "bs4": "from bs4 import BeautifulSoup\ndef f(x): return BeautifulSoup('<a href=u>t</a>', 'html.parser').a['href']",
}


@pytest.fixture(scope="module")
def pool():
    pool = Pool("seccomp", timeout=10, memory_mb=256, workers=1)
    yield pool
    pool.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HONEST)
def test_honest_code_returns_what_it_returns_outside(pool, name):
    if name in ("numpy", "pandas", "scipy", "dateutil", "bs4"):
        pytest.importorskip(name)
    names: dict = {"__name__": "answer"}
    exec(HONEST[name], names)
    expected = encode(eval(CALL, names)).encode()
    job = Job([HONEST[name]], pack_tests([CALL]), 1, ["f"])
    assert pool.run("answer", 0, job, imported_names(HONEST[name])) == [("value", expected)]


def test_code_gets_as_few_modules_as_it_may_need():
    """Each page of memory makes a fork slower. No program is loaded, whatever code says."""
    assert modules_for(set(), "def f(x): return x") == ()
    assert modules_for({"math", "re"}) == modules_for(set(), "importlib.import_module('re')") == STANDARD_MODULES
    assert modules_for({"numpy.random", "os"}) == (*STANDARD_MODULES, "numpy.*")
    assert modules_for({"this", "idlelib.idle", "__main__", "no_such_package"}) == STANDARD_MODULES
