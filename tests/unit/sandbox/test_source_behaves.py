"""What a test gets of an answer's value behaves as the value itself: it is asked the same questions."""

import collections
import datetime
import decimal
import fractions
from collections import Counter, OrderedDict, defaultdict, deque

import pytest

from sweet_rl.sandbox.encode import encode
from sweet_rl.sandbox.values import decode, same, source

WEST = datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))
NAMES = {
    "collections": collections, "datetime": datetime, "decimal": decimal, "fractions": fractions,
}  # fmt: skip
VALUES = {
    "empty range": range(0), "one number": range(7, 8), "backwards": range(9, -5, -4),
    "long": range(1 << 70, (1 << 70) + 9, 3),
    "items with lists": {"z": [1], "a": [2, 3]}.items(), "values": {"z": 3, "a": 1}.values(),
    "keys": {"z": 3, "a": 1}.keys(),
    "no values": {}.values(), "keys of tuples": {(1, 2): 0, (0, 1): 1}.keys(), "views inside": [{"b": 1}.items(),
    range(3)],
    "items of sets": {frozenset([1]): {2}}.items(), "counts": Counter("hello"),
    "no default": defaultdict(None, {"a": 1}),
    "lists": defaultdict(list, {"a": [1]}), "sevens": defaultdict(lambda: 7),
    "tree": defaultdict(lambda: defaultdict(int)),
    "failing": defaultdict(lambda: 1 // 0),
    "counts inside": {"x": Counter(a=1)}, "ordered": OrderedDict(b=1, a=2).keys(),
    "queue": deque([1, 2]), "aware": datetime.datetime(2024, 1, 31, 23, 5, tzinfo=WEST),
    "noon": datetime.time(12, 0, 1),
    "aware time": datetime.time(12, 0, 1, tzinfo=WEST),
}  # fmt: skip
QUESTIONS = {
    "len": len, "list": list, "sum": sum, "sorted": sorted, "max": max, "dict": dict,
    "first": lambda v: v[0], "last": lambda v: v[-1], "2 in": lambda v: 2 in v, "a in": lambda v: "a" in v,
    "slice": lambda v: v[1:], "get": lambda v: v.get("a"), "hour": lambda v: v.hour,
    "utc": lambda v: v.utcoffset(), "common": lambda v: v.most_common(1),
    "union": lambda v: v | {"q"}, "added": lambda v: v + v, "iso": lambda v: v.isoformat(), "empty": lambda v: not v,
    "inside": lambda v: v["x"]["y"], "missing": lambda v: v["nothing"],  # these add keys
}  # fmt: skip
NO_DEFAULT = ("tree", "failing")  # a dict of dicts, and one whose missing key fails, are written as dicts


def reply(question, value):
    try:
        return question(value)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        return type(error)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_and_its_source_reply_alike(name):
    copy = eval(source(tree(VALUES[name])), dict(NAMES))
    for question, ask in QUESTIONS.items():
        if name in NO_DEFAULT and question in ("first", "last", "missing", "inside"):
            continue
        one, other = reply(ask, VALUES[name]), reply(ask, copy)
        assert type(one) is type(other) and (one == other or str(one) == str(other)), question


def tree(value):
    return decode(encode(value).encode())


def test_values_are_the_same_exactly_if_python_says_so():
    kinds = [
        Counter(a=1), Counter(a=1, b=0), {"a": 1}, {"a": 1, "b": 0}, defaultdict(int, a=1), OrderedDict(a=1),
        {"a": 1}.items(), {("a", 1)}, {"a": 1}.keys(), {"a"}, ["a"], [("a", 1)], range(3), range(0, 3, 1),
        range(0, 5, 2), [0, 1, 2],
        {"a": [1]}.items(), {"a": [1], "b": [2]}.items(), {"b": [2], "a": [1]}.items(), {}, Counter(), set(),
        range(0), [],
    ]  # fmt: skip
    for one in kinds:
        for other in kinds:
            try:
                equal = one == other
            except TypeError:  # items with lists are compared with a set
                equal = False
            assert same(tree(one), tree(other)) == equal, (one, other)


@pytest.mark.parametrize(
    "forged",
    [
        ["r", 1, 1, 1], ["r", 1, 2], ["r", 1.5], ["r", "a"], ["r", ["dec", "1"]], ["r", 1, 2, 3, 4], ["items", 1],
        ["items", [1]],
        ["Counter", [1]], ["Counter", 1], ["defaultdict"], ["defaultdict", ["o", "x"]], ["keys", ["l"], ["o"]],
        ["ti", 1],
        ["values", ["x"]], ["dt", 1, 1, 1, "'+exit()+'"],
    ],
)  # fmt: skip
def test_a_forged_tree_is_no_value_and_runs_nothing(forged):
    for text in (forged, ["l", forged]):
        same(text, text), same(tree({"a": 1}), text), same(tree(Counter(a=1)), text)
        try:
            made = source(text)
        except ValueError:
            continue
        with pytest.raises((TypeError, ValueError, SyntaxError)):
            eval(made, dict(NAMES))
