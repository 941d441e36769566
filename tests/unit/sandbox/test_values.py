"""Values as data: what is equal, what is not, what cannot be told."""

import json
from array import array
from collections import Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from uuid import UUID

import pytest

from sweet_rl.sandbox.encode import Unserialisable, encode
from sweet_rl.sandbox.values import decode, preview, same

NAN = float("nan")


def sent(value):
    """The tree as it arrives: through JSON."""
    return json.loads(encode(value))


def equal(expected, got) -> bool:
    return same(sent(expected), sent(got))


class Colour(Enum):
    RED = 1
    BLUE = 2


class Level(IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    y: float


class Plain:
    def __init__(self, value):
        self.value = value


class AlwaysEqual:
    def __init__(self):
        self.here = 1

    def __eq__(self, other):
        return True

    __hash__ = None


Pair = namedtuple("Pair", "a b")
EAST = timezone(timedelta(hours=2))

EQUAL = [
    (1, 1.0), (True, 1), (0.1 + 0.2, 0.3), (NAN, NAN), ([1, NAN], [1, NAN]), (-0.0, 0.0), (10**400, 10**400),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1: 2}, {1.0: 2}), ({1, 2}, {2, 1}), ({(1, 2): 0}, {(1.0, 2): 0}),
    (defaultdict(int, a=1), {"a": 1}), (Counter("aab"), {"a": 2, "b": 1}), (OrderedDict(a=1), {"a": 1}),
    (deque([1]), deque([1])), (range(0, 3), range(3)), (Pair(1, 2), (1, 2)), ({frozenset({1})}, {frozenset({True})}),
    (iter([1, 2]), (x for x in (1, 2))), ({"a": 1}.keys(), {"a"}), (b"x", bytearray(b"x")),
    (Decimal("1.10"), Decimal("1.1")), (Fraction(1, 2), Decimal("0.5")), (Decimal(2), 2),
    (datetime(2020, 1, 1, 2, tzinfo=EAST), datetime(2020, 1, 1, 0, tzinfo=UTC)), (time(1, 2), time(1, 2)),
    (date(2020, 1, 2), date(2020, 1, 2)), (timedelta(hours=1), timedelta(minutes=60)), (Colour.RED, Colour.RED),
    (Level.LOW, 1), (Point(1, 2.0), Point(1, 2)), (Plain([1]), Plain([1])), (float("inf"), float("inf")),
    ("\ud800", "\ud800"), (1 + 2j, 1 + 2j), (int, int), (ValueError("a"), ValueError("a")),
    (1.0, 1.0 + 0.9e-9), (1e-19, 1.0000000001e-19), (1e15, 1e15 + 1), (1e300, 10**300),
    (array("d", [0.5]), array("d", [0.5])), (UserDict(a=1), UserDict(a=1)), (UUID(int=1), UUID(int=1)),
    ({"a": [0.3, (1.5, None)]}, {"a": [0.1 + 0.2, (1.5, None)]}),
]  # fmt: skip
DIFFERENT = [
    (1, 1.0000001), (1, "1"), (None, 0), (None, False), ([1], (1,)), ([1, 2], [2, 1]), ("a", b"a"), ({1}, [1]),
    ({"a": 1}, {"a": 2}), ({"a": 1}, {"a": 1, "b": 2}), (3, 3.0000000001), (1.0, NAN), (NAN, 1.0), (NAN, None),
    (NAN, "nan"), (deque([1]), [1]), (range(3), [0, 1, 2]), (datetime(2020, 1, 1), date(2020, 1, 1)),
    (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)), (Colour.RED, Colour.BLUE), (Colour.RED, 1),
    (Point(1, 2), Point(1, 3)), (Point(1, 2), Plain(1)), ([], None), ("", []), (float("inf"), -float("inf")),
    (AlwaysEqual(), Plain(1)), (3, AlwaysEqual()), (iter([1]), [1]), ({1: [1]}, {1: (1,)}), (True, "True"),
    (1.0, 1.0 + 2e-9), (0.0, 1e-300), (1.6e-19, 0.0), (6.6e-34, -9e-13), (Decimal("0.1"), Decimal("0.2")),
    (1704067200.0, 1704067201.0), (5e9, 5000000004), (5e9 + 0j, 5e9 + 4 + 0j), (1e-19 + 0j, 0j),
    (b"ab", array("b", b"ab")), (array("i", [1]), [1]), (date, datetime), (1, 1.0 + 0.9e-9),
    ({"a": [0.3]}, {"a": [0.3000001]}), ({0.1 + 0.2}, {0.3}), ({0.1 + 0.2: 1}, {0.3: 1}),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "got"), EQUAL, ids=range(len(EQUAL)))
def test_equal_values(expected, got):
    assert equal(expected, got)


@pytest.mark.parametrize(("expected", "got"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different_values(expected, got):
    assert not equal(expected, got)


def cyclic():
    value = []
    value.append(value)
    return value


def doubled():
    value = [1]
    for _ in range(40):
        value = [value, value]
    return value


UNTOLD = {
    "object": object(),
    "lambda": lambda: 1,
    "module": json,
    "cyclic": cyclic(),
    "doubled": doubled(),
    "endless": (i for i in iter(int, 1)),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_what_cannot_be_told_is_unserialisable(name):
    with pytest.raises(Unserialisable):
        encode(UNTOLD[name])


FORGED = [
    ["dt", "x"], ["dt", 1], ["l"], [], [[]], {"a": 1}, ["S", ["l", 1]], ["S", {}], ["d", 1], ["d", [1]], ["d", [], 1],
    ["d", {}, 1], ["fr", 1, 0], ["o"], ["c", None, None], ["nd", [1]], ["unknown", 1], 7,
]  # fmt: skip
HONEST = [1, 1.5, "a", [1], (1,), {1}, {"a": 1}, datetime(2020, 1, 1), Decimal(1), Fraction(1, 2), Point(1, 2), 1j,
          Counter(a=1), range(3)]  # fmt: skip


def test_forged_trees_are_different_and_raise_nothing():
    for honest in HONEST:
        for forged in FORGED:
            assert not same(sent(honest), forged)
            preview(forged)


HOSTILE = [
    "[" * 100_000 + "]" * 100_000, "1" * 5000, '["fr",' + "9" * 4000 + ',1]', '["c",1e999,1]',
    '["l",' * 4 + '{"a":' * 982 + "1" + "}" * 982 + "]" * 4,
    '["S",' + "[" * 900 + "]" * 900 + "]", "NaN", '{"l": 1}', "", '"\\ud800"',
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_are_different_and_raise_nothing(number):
    for honest in (*HONEST, 10**30, frozenset([Decimal(1)]), float("inf"), {Fraction(1, 3): 1}):
        for text in (HOSTILE[number], f'["S",{HOSTILE[number]}]', f'["d",[{HOSTILE[number]},1]]'):
            try:
                got = decode(text.encode())
            except ValueError:
                continue
            assert not same(sent(honest), got)
            preview(got)


def test_numpy_values_compare_by_shape_and_items():
    np = pytest.importorskip("numpy")
    assert equal(np.array([[1, 2]]), np.array([[1.0, 2.0]]))
    assert equal(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not equal(np.array([[1, 2]]), np.array([1, 2]))
    assert not equal(np.array([1, 2]), [1, 2])
    assert equal(np.array([0.1 + 0.2]), np.array([0.3])) and not equal(np.array([1, 2]), np.array([1, 3]))
    assert equal(np.zeros((0, 3)), np.zeros((0, 3))) and not equal(np.zeros((0, 3)), np.zeros((0, 2)))
    assert equal(np.array(["a", None], dtype=object), np.array(["a", None], dtype=object))
    days = np.array(["2020-01-01", "NaT"], dtype="M8[D]")
    assert equal(days, days.copy()) and not equal(days, days.astype("M8[D]") + 1)
    assert equal(np.datetime64("2020-01-01"), np.datetime64("2020-01-01")) and equal(np.array(3), np.array(3.0))
    assert not equal(np.datetime64("2020-01-01"), np.datetime64("2020-01-02"))
    assert equal(np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 5], mask=[0, 1])) and equal([np.int8(1)], [1])
    assert equal(np.array([1 + 2j]), np.array([1 + 2j])) and equal({"a": np.array([np.nan])}, {"a": np.array([np.nan])})
    assert equal(np.dtype("i4"), np.dtype("int32")) and not equal(np.dtype("i4"), np.dtype("i8"))
    assert equal(np.float64(0.5), 0.5) and equal(np.int64(3), 3) and equal(np.bool_(True), True)


def test_pandas_values_compare_by_labels_and_items():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert equal(frame, frame.copy())
    assert not equal(frame, frame.rename(columns={"a": "c"}))
    assert equal(pd.Series([1.0, float("nan")]), pd.Series([1.0, float("nan")]))
    assert not equal(pd.Series([1, 2]), pd.Series([1, 2], index=["a", "b"])) and not equal(pd.Series([1, 2]), [1, 2])
    assert not equal(frame, frame.assign(a=[1, 3])) and not equal(frame, frame.iloc[::-1])
    assert equal(pd.Timestamp("2020-01-01"), datetime(2020, 1, 1)) and equal(pd.NaT, pd.NaT)
    assert not equal(pd.NaT, pd.Timestamp("2020-01-01")) and equal(pd.NA, pd.NA)
    assert equal(pd.Timedelta(hours=1), pd.Timedelta(minutes=60))
    assert equal(pd.Index([1, 2]), pd.Index([1, 2])) and not equal(pd.Index([1, 2]), pd.Index([2, 1]))
    assert equal(frame.groupby("a").size(), frame.groupby("a").size())


def test_previews_are_short_and_readable():
    assert preview(sent({"a": [1, (2,)], "b": {3}})) == "{'a': [1, (2,)], 'b': {3}}"
    assert len(preview(sent(list(range(1000))))) <= 120
    assert preview(["\ud800\x1b[31m", ["i", 1]]).isprintable()  # a forged frame
