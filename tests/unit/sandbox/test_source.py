"""Values as Python expressions: what a test does with a value, it does with an equal one of the same type."""

import collections
import datetime
import decimal
import fractions

import pytest
from hypothesis import given, settings

from sweet_rl.sandbox.encode import encode
from sweet_rl.sandbox.values import SOURCE_MODULES, decode, same, source
from tests.unit.sandbox.test_values_property import literals

NAMES = {"collections": collections, "datetime": datetime, "decimal": decimal, "fractions": fractions}


def again(value):
    return eval(source(decode(encode(value).encode())), dict(NAMES))


@given(literals)
@settings(max_examples=100, deadline=None)
def test_a_literal_comes_back(value):
    got = again(value)
    assert type(got) is type(value) or isinstance(value, frozenset)
    assert same(decode(encode(value).encode()), decode(encode(got).encode()))


VALUES = [
    decimal.Decimal("1.50"), fractions.Fraction(-1, 3), collections.OrderedDict(b=1, a=[2]), collections.deque([1]),
    datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.timedelta(days=-1, microseconds=7),
    10**5000, -(1 << 60), "\ud800'", b"\xff", {(1, frozenset({2})): {frozenset({3})}}, float("-inf"), 1j,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_plain_values_of_other_types_come_back(value):
    assert again(value) == value and type(again(value)) is type(value) and set(NAMES) == set(SOURCE_MODULES)


def test_an_iterator_comes_back_as_one():
    assert list(again(iter([1, 2]))) == [1, 2] and next(again(n for n in range(3))) == 0


class Point:
    def __init__(self):
        self.x = 1


FORGED = [
    b'["o","Point",["x",1]]',
    b"[]",
    b"[[]]",
    b'[["l"],1]',
    b'["l",["nothing"]]',
    b'["d",1]',
    b"[" * 900 + b"]" * 900,
]


@pytest.mark.parametrize("text", [*FORGED, encode([Point()]).encode()])
def test_what_is_no_plain_data_has_no_source(text):
    with pytest.raises(ValueError):
        source(decode(text))


@pytest.mark.parametrize(
    "text", [b'["dec","1); boom("]', b'["i","0,16);boom(0"]', b'["y",["l","boom()"]]', b'["td","boom()"]']
)
def test_forged_leaves_stay_texts(text):
    with pytest.raises((ValueError, TypeError, decimal.InvalidOperation)):
        eval(source(decode(text)), {**NAMES, "boom": pytest.fail})
