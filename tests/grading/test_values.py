"""Values as data: what is equal, what is not, what cannot be told."""

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.grading.encode import Unserialisable, encode
from sweet_rl.grading.values import preview, same

NAN = float("nan")


def sent(value):
    """The tree as it arrives: through JSON."""
    return json.loads(encode(value))


def equal(expected, got) -> bool:
    return same(sent(expected), sent(got))


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.complex_numbers(allow_nan=False, allow_infinity=False),
)
keys = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=5
)
literals = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(keys, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(literals, literals)
def test_comparison_agrees_with_python_s_own(a, b):
    if a == b or not close(a, b):
        assert equal(a, b) == (a == b)


@settings(max_examples=300, deadline=None)
@given(literals)
def test_a_value_equals_itself(value):
    assert equal(value, value)


def close(a, b) -> bool:
    """Whether two unequal values are the kind that the tolerance is for: floats within it."""
    if isinstance(a, float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-11)
    return (
        isinstance(a, complex | list | tuple | set | frozenset | dict)
        and type(a) is type(b)
        and a != b
        and "e-" in repr(a) + repr(b)
    )


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
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1: 2}, {1.0: 2}), ({1, 2}, {2, 1}), ({0.1 + 0.2}, {0.3}),
    (defaultdict(int, a=1), {"a": 1}), (Counter("aab"), {"a": 2, "b": 1}), (OrderedDict(a=1), {"a": 1}),
    (deque([1]), deque([1])), (range(0, 3), range(3)), (range(0), range(5, 5)), (Pair(1, 2), (1, 2)),
    (iter([1, 2]), (x for x in (1, 2))), ({"a": 1}.keys(), {"a"}), (b"x", bytearray(b"x")),
    (Decimal("1.10"), Decimal("1.1")), (Fraction(1, 2), 0.5), (Decimal(2), 2), (date(2020, 1, 2), date(2020, 1, 2)),
    (datetime(2020, 1, 1, 2, tzinfo=EAST), datetime(2020, 1, 1, 0, tzinfo=timezone.utc)), (time(1, 2), time(1, 2)),
    (timedelta(hours=1), timedelta(minutes=60)), (Colour.RED, Colour.RED), (Level.LOW, 1), (Point(1, 2.0), Point(1, 2)),
    (Plain([1]), Plain([1])), (float("inf"), float("inf")), ("\ud800", "\ud800"), (1 + 2j, 1 + 2j), (int, int),
    (ValueError("a"), ValueError("a")),
]  # fmt: skip
DIFFERENT = [
    (1, 1.0000001), (1, "1"), (None, 0), (None, False), ([1], (1,)), ([1, 2], [2, 1]), ("a", b"a"), ({1}, [1]),
    ({"a": 1}, {"a": 2}), ({"a": 1}, {"a": 1, "b": 2}), (3, 3.0000000001), (1.0, NAN), (NAN, None), (NAN, "nan"),
    (deque([1]), [1]), (range(3), [0, 1, 2]), (datetime(2020, 1, 1), date(2020, 1, 1)),
    (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=timezone.utc)), (Colour.RED, Colour.BLUE), (Colour.RED, 1),
    (Point(1, 2), Point(1, 3)), (Point(1, 2), Plain(1)), ([], None), ("", []), (float("inf"), -float("inf")),
    (AlwaysEqual(), Plain(1)), (3, AlwaysEqual()), (iter([1]), [1]), ({1: [1]}, {1: (1,)}), (True, "True"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "got"), EQUAL, ids=repr)
def test_equal_values(expected, got):
    assert equal(expected, got)


@pytest.mark.parametrize(("expected", "got"), DIFFERENT, ids=repr)
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
    "builtin": len,
    "class": Plain,
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
    ["i"], ["i", 5], ["i", "zz"], ["dt", "x"], ["dt", 1], ["l"], [], [[]], {"a": 1}, ["S", ["l", 1]], ["d", 1],
    ["d", [1]], ["fr", 1, 0], ["dec", "x"], ["o"], ["c", None, None], ["nd", [1]], ["f", "x"], ["unknown", 1], 7,
]  # fmt: skip
HONEST = [1, 1.5, "a", [1], (1,), {1}, {"a": 1}, datetime(2020, 1, 1), Decimal(1), Fraction(1, 2), Point(1, 2), 1j]


def test_forged_trees_are_different_and_raise_nothing():
    for honest in HONEST:
        for forged in FORGED:
            assert not same(sent(honest), forged)
            preview(forged)


def test_numpy_values_compare_by_shape_and_items():
    np = pytest.importorskip("numpy")
    assert equal(np.array([[1, 2]]), np.array([[1.0, 2.0]]))
    assert equal(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not equal(np.array([[1, 2]]), np.array([1, 2]))
    assert not equal(np.array([1, 2]), [1, 2])
    assert equal(np.float64(0.5), 0.5) and equal(np.int64(3), 3) and equal(np.bool_(True), True)


def test_pandas_values_compare_by_labels_and_items():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert equal(frame, frame.copy())
    assert not equal(frame, frame.rename(columns={"a": "c"}))
    assert equal(pd.Series([1.0, float("nan")]), pd.Series([1.0, float("nan")]))


def test_previews_are_short_and_readable():
    assert preview(sent({"a": [1, (2,)], "b": {3}})) == "{'a': [1, (2,)], 'b': {3}}"
    assert len(preview(sent(list(range(1000))))) <= 120
