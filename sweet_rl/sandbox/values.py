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
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

REL_TOLERANCE = 1e-9
EXACT_WHOLE = 10**15  # whole numbers below are exact as floats, so no rounding makes one of them another
DICTS = {"d", "od"}
NEVER_EQUAL = {"o", "nd", "df", "se", "it"}  # exactly: their classes have no `==` that gives a truth
MAX_DIGITS = 10_000  # of a Fraction, and of a number that is compared with a Decimal: both take quadratic time


def decode(text: bytes):
    """The tree of a text that came out of a sandbox. Raises ValueError if it is not JSON or has JSON objects."""
    try:
        return json.loads(text, object_pairs_hook=_refuse_object)
    except RecursionError:
        raise ValueError("too deep") from None


def _refuse_object(_):
    raise ValueError("no tree has JSON objects")


def same(expected, got, exact: bool = False) -> bool:
    """Whether two trees stand for values that are equal by `==`, with these differences.

    NaN equals NaN. If the reference's number is a float or complex, a relative difference of 1e-9 is allowed, but not
    between two whole numbers below 10**15, and not in keys of dicts and members of sets. Objects are compared by class
    name and attributes, iterators by their items, arrays by shape and items; a class's own `__eq__` is never called.

    Args:
        expected: tree of the reference. It leads the walk, so the cost is bounded by its size.
        got: tree of the answer, untrusted: anything that is no tree is different.
        exact: Whether `==` alone counts, without these differences.
    """
    try:
        return _same(expected, got, exact)
    except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
        return False


def _same(expected, got, exact: bool) -> bool:
    number = as_number(expected)
    if number is not None:
        other = as_number(got)
        return other is not None and _same_number(number, other, exact)
    if type(expected) is not list:
        return type(expected) is type(got) and expected == got
    if type(got) is not list or len(expected) != len(got):
        return False
    tag, items, others = expected[0], expected[1:], got[1:]
    if tag in DICTS and got[0] in DICTS:
        in_order = tag != "od" or got[0] != "od" or [_key(k) for k, _ in items] == [_key(k) for k, _ in others]
        return in_order and _same_dict(items, others, exact)
    if tag != got[0] or (exact and tag in NEVER_EQUAL):
        return False
    if tag == "S":
        return set(map(_key, items)) == set(map(_key, others))
    if tag == "o":
        return items[0] == others[0] and _same_dict(items[1:], others[1:], exact)
    if tag in ("dt", "ti"):
        return _moment(expected) == _moment(got)
    if tag in ("l", "t", "q", "it", "r", "nd", "df", "se"):
        return all(_same(a, b, exact) for a, b in zip(items, others, strict=True))
    return expected == got  # sp, y, da, td, u, the shape of an array: flat


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
    if tree[0] == "fr" and len(str(tree)) <= MAX_DIGITS:
        parts = as_number(tree[1]), as_number(tree[2])
        return Fraction(*parts) if all(type(part) is int for part in parts) else None  # of a Decimal: without end
    if tree[0] == "c":
        return complex(as_number(tree[1]), as_number(tree[2]))
    return None


def _same_number(expected, got, exact: bool) -> bool:
    if Decimal in (type(expected), type(got)):
        if any(type(number) is int and number.bit_length() > 4 * MAX_DIGITS for number in (expected, got)):
            return False
    if expected == got:
        return True
    if exact:
        return False
    if type(expected) is Decimal and type(got) is Decimal:
        return expected.is_nan() and got.is_nan()
    if type(expected) is complex and type(got) in (complex, float, int, bool):
        got = complex(got)
        parts = [(expected.real, got.real), (expected.imag, got.imag)]
        if any(_other_whole_number(*pair) for pair in parts):
            return False
        return all(_same_number(*pair, exact) for pair in parts) or cmath.isclose(expected, got, rel_tol=REL_TOLERANCE)
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
        return "nan" if number != number else ("number", number)
    if type(tree) is not list:
        return ("plain", tree)
    if tree[0] == "S":
        return ("S", frozenset(map(_key, tree[1:])))
    if tree[0] in ("dt", "ti"):
        return (tree[0], _moment(tree))
    return tuple(item if i == 0 else _key(item) for i, item in enumerate(tree))


def _same_dict(expected: list, got: list, exact: bool) -> bool:
    others = {_key(key): value for key, value in got}
    keys = [_key(key) for key, _ in expected]
    return others.keys() == set(keys) and all(
        _same(value, others[key], exact) for key, (_, value) in zip(keys, expected, strict=True)
    )


def _moment(tree):
    """A comparable form of a date or time: naive ones as they are, aware ones by their instant."""
    *fields, offset = tree[1:]
    if tree[0] == "ti":
        fields = [2000, 1, 1, *fields]
    moment = datetime(*fields) - datetime(2000, 1, 1)
    return offset is None, moment // timedelta(microseconds=1) - (offset or 0)


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
