"""Read and compare values in the grading process: `decode`, `same` and `preview`.

A value leaves the sandbox as the JSON text of a tree (`encode.py` writes it in the answer's process). Trees are
compared here; no method of an answer's object is ever called in the process that has the reference's results.

The tree: None, bools, strings, finite floats and ints of up to 60 bits stand for themselves; everything else is a
list whose first item is a tag: i (hexadecimal int), f (nan, inf, -inf), sp (string with lone surrogates), c complex,
dec Decimal, fr Fraction, y bytes, l list, t tuple, S set, d dict, od ordered dict, q deque, it iterator, r range (its
first, second and last number), dt datetime, da date, ti time, td timedelta, nd array (shape, items), df frame, se
series, o object (class, attributes), u any other value (class, what it writes of itself).
"""

import cmath
import json
import math
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

REL_TOLERANCE = 1e-9
EXACT_WHOLE = 10**15  # whole numbers below are exact as floats, so no rounding makes one of them another
DICTS = {"d", "od"}
MICROSECOND = timedelta(microseconds=1)
MAX_FRACTION_DIGITS, MAX_INT_BITS, MAX_OF_ONE_HASH = 10_000, 40_000, 256


def decode(text: bytes):
    """The tree of a text that came out of a sandbox. Raises ValueError if it is not JSON or has JSON objects."""
    try:
        return json.loads(text, object_pairs_hook=_refuse_object)
    except RecursionError:
        raise ValueError("too deep") from None


def _refuse_object(_):
    raise ValueError("no tree has JSON objects")


def same(expected, got) -> bool:
    """Whether two trees stand for values that are equal by `==`, with these differences.

    NaN equals NaN. If the reference's number is a float or complex, a relative difference of 1e-9 is allowed, but not
    between two whole numbers below 10**15. Objects are compared by class name and attributes, iterators by their items,
    arrays by shape and items; a class's own `__eq__` is never called.

    Args:
        expected: tree of the reference. It leads the walk, so the cost is bounded by its size.
        got: tree of the answer, untrusted: anything that is no tree is different.
    """
    try:
        return _same(expected, got)
    except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
        return False


def _same(expected, got) -> bool:
    number = as_number(expected)
    if number is not None:
        other = as_number(got)
        return other is not None and _same_number(number, other)
    if type(expected) is not list:
        return type(expected) is type(got) and expected == got
    if type(got) is not list:
        return False
    tag = expected[0]
    if len(expected) != len(got):
        return False
    if tag != got[0]:  # the order counts only between two ordered dicts
        return {tag, got[0]} <= DICTS and _same_dict(expected[1:], got[1:])
    if tag == "S":
        return _same_set(expected[1:], got[1:])
    if tag == "d":
        return _same_dict(expected[1:], got[1:])
    if tag == "od":
        return _same_dict(expected[1:], got[1:]) and [_key(k) for k, _ in expected[1:]] == [_key(k) for k, _ in got[1:]]
    if tag == "o":
        return expected[1] == got[1] and _same_dict(expected[2:], got[2:])
    if tag in ("dt", "ti"):
        return _moment(expected) == _moment(got)
    if tag == "nd":
        return expected[1] == got[1] and _same(expected[2], got[2])
    if tag in ("l", "t", "q", "it", "r", "df", "se"):
        return all(_same(a, b) for a, b in zip(expected[1:], got[1:], strict=True))
    return expected == got  # sp, y, da, td, u: flat


def as_number(tree):
    """The number a tree stands for, or None."""
    kind = type(tree)
    if kind is int or kind is float or kind is bool:
        return tree
    if kind is not list or not tree:
        return None
    if tree[0] == "i":
        return int(tree[1], 16)
    if tree[0] == "f":
        return float(tree[1])
    if tree[0] == "dec":
        return Decimal(tree[1])
    if tree[0] == "fr":
        if len(str(tree)) > MAX_FRACTION_DIGITS:  # reducing it takes time quadratic in its length
            return None
        parts = as_number(tree[1]), as_number(tree[2])
        return Fraction(*parts) if all(type(part) is int for part in parts) else None  # of a Decimal: without end
    if tree[0] == "c":
        return complex(as_number(tree[1]), as_number(tree[2]))
    return None


def _long_int(*numbers) -> bool:
    """Whether one is an int so long that comparing it with a Decimal takes quadratic time."""
    return any(type(number) is int and number.bit_length() > MAX_INT_BITS for number in numbers)


def _same_number(expected, got) -> bool:
    if Decimal in (type(expected), type(got)) and _long_int(expected, got):
        return False
    if expected == got:
        return True
    if type(expected) is Decimal and type(got) is Decimal:
        return expected.is_nan() and got.is_nan()
    if type(expected) is complex and type(got) in (complex, float, int, bool):
        got = complex(got)
        parts = [(expected.real, got.real), (expected.imag, got.imag)]
        if any(_other_whole_number(*pair) for pair in parts):
            return False
        return all(_same_number(*pair) for pair in parts) or cmath.isclose(expected, got, rel_tol=REL_TOLERANCE)
    if type(expected) is not float or type(got) not in (float, int, bool):
        return False
    if math.isnan(expected):
        return type(got) is float and math.isnan(got)
    return not _other_whole_number(expected, got) and math.isclose(expected, got, rel_tol=REL_TOLERANCE)


def _other_whole_number(expected: float, got) -> bool:
    return expected != got and expected.is_integer() and abs(expected) < EXACT_WHOLE and got == int(got)


def _key(tree):
    """A hashable that is equal for equal trees; finds dict keys and set members."""
    number = as_number(tree)
    if number is not None:
        return "nan" if number != number else ("number", number, number == -1)  # -1 has the hash of -2
    if type(tree) is not list:
        return ("plain", tree)
    if tree[0] == "S":
        return ("S", frozenset(findable(map(_key, tree[1:]))))
    if tree[0] in ("dt", "ti"):
        return (tree[0], _moment(tree))
    return tuple(item if i == 0 else _key(item) for i, item in enumerate(tree))


def findable(keys) -> list:
    """The keys as a list. Raises ValueError if so many have the same hash that looking them up takes quadratic time:
    only an attack makes such keys."""
    keys = list(keys)
    if len(keys) > MAX_OF_ONE_HASH:
        counts = Counter(map(hash, keys))
        if max(counts.values()) > MAX_OF_ONE_HASH:
            raise ValueError("keys of one hash")
    return keys


def _same_set(expected: list, got: list) -> bool:
    if set(findable(map(_key, expected))) == set(findable(map(_key, got))):
        return True
    numbers, others = [as_number(item) for item in expected], [as_number(item) for item in got]
    if None in numbers or None in others:
        return False
    return all(_same_number(a, b) for a, b in zip(sorted(numbers), sorted(others), strict=True))


def _same_dict(expected: list, got: list) -> bool:
    others = dict(zip(findable(_key(k) for k, _ in got), (v for _, v in got), strict=True))
    if len(others) != len(expected):
        return False
    missing = object()
    for k, v in expected:
        other = others.get(_key(k), missing)
        if other is missing or not _same(v, other):
            return False
    return True


def _moment(tree):
    """A comparable form of a date or time: naive ones as they are, aware ones by their instant."""
    *fields, offset = tree[1:]
    if tree[0] == "ti":
        return (
            offset is None,
            timedelta(0, fields[2], fields[3], 0, fields[1], fields[0]) - (offset or 0) * MICROSECOND,
        )
    moment = datetime(*fields)
    return (offset is None, (moment - datetime(2000, 1, 1)) // MICROSECOND - (offset or 0))


def preview(tree) -> str:
    """A short text of a tree for people; never raises, whatever the tree."""
    text = _preview(tree, 0, [60])
    return text if len(text) <= 120 else text[:119] + "…"


def _preview(tree, depth: int, budget: list) -> str:
    budget[0] -= 1
    if budget[0] < 0 or depth > 6:
        return "…"
    if type(tree) is str:
        return repr(tree[:200])
    if type(tree) is not list or not tree:
        return repr(tree)[:60]
    tag, items = tree[0] if type(tree[0]) is str else "?", tree[1:]
    shapes = {"l": "[]", "t": "()", "S": "{}", "d": "{}", "od": ("OrderedDict({", "})"), "q": ("deque([", "])")}
    if tag in DICTS and all(type(item) is list and len(item) == 2 for item in items):
        inner = [f"{_preview(k, depth + 1, budget)}: {_preview(v, depth + 1, budget)}" for k, v in items[:30]]
    else:
        inner = [_preview(item, depth + 1, budget) for item in items[:30]]
    start, end = shapes.get(tag, (f"{repr(tag[:20])[1:-1]}(", ")"))
    comma = "," if tag == "t" and len(items) == 1 else ""
    return f"{start}{', '.join(inner)}{comma}{end}"
