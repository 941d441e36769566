"""Read and compare values in the grading process: `decode`, `same` and `preview`.

A value leaves the sandbox as the JSON text of a tree (`encode.py` writes it in the answer's process). Trees are
compared here; no method of an answer's object is ever called in the process that has the reference's results.

The tree: None, bools, strings, ints and floats stand for themselves (JSON names NaN and the infinities); everything
else is a list whose first item is a tag: c complex, fr Decimal or Fraction, y bytes, l list, t tuple, S set, d dict
(key, value, key, value, ...), it iterator, dt datetime, nd array (shape, items), df frame, se series, o object (class,
attributes), u any other value (class, what it writes of itself).
"""

import json
import math

REL_TOLERANCE = 1e-9
EXACT_WHOLE = 10**15  # whole numbers below are exact as floats, so no rounding makes one of them another
NUMBERS = (int, float, bool)
NEVER_EQUAL = {"o", "nd", "df", "se", "it"}  # exactly: their classes have no `==` that gives a truth


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

    NaN equals NaN. If the reference's number is a float, a relative difference of 1e-9 is allowed, but not between two
    whole numbers below 10**15, and not in keys of dicts and members of sets. Complex numbers are compared by their
    parts, objects by class name and attributes, iterators by their items, arrays by shape and items; a class's own
    `__eq__` is never called.

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
    if type(expected) in NUMBERS:
        return type(got) in NUMBERS and _same_number(expected, got, exact)
    if type(expected) is not list:
        return type(expected) is type(got) and expected == got
    if type(got) is not list or len(expected) != len(got) or expected[0] != got[0]:
        return False
    if exact and expected[0] in NEVER_EQUAL:
        return False
    if expected[0] == "S":
        return _key(expected) == _key(got)
    if expected[0] == "d":
        others = dict(zip(map(_key, got[1::2]), got[2::2], strict=True))
        keys = [_key(key) for key in expected[1::2]]
        if others.keys() != set(keys):
            return False
        return all(_same(value, others[key], exact) for key, value in zip(keys, expected[2::2], strict=True))
    return all(_same(a, b, exact) for a, b in zip(expected, got, strict=True))


def _same_number(expected, got, exact: bool) -> bool:
    if expected == got:
        return True
    if exact or type(expected) is not float:
        return False
    if math.isnan(expected):
        return type(got) is float and math.isnan(got)
    if expected.is_integer() and abs(expected) < EXACT_WHOLE and got == int(got):
        return False
    return math.isclose(expected, got, rel_tol=REL_TOLERANCE)


def _key(tree):
    """A hashable that is equal for equal trees; finds dict keys and set members."""
    if type(tree) is not list:
        return tree
    return frozenset(map(_key, tree[1:])) if tree[0] == "S" else tuple(map(_key, tree))


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
    tag = tree[0] if type(tree[0]) is str else "?"
    parts = [_preview(part, depth + 1, budget) for part in tree[1:31]]
    if tag == "d":
        parts = [": ".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    inner = ", ".join(parts) + ("," if tag == "t" and len(parts) == 1 else "")
    brackets = {"l": "[]", "t": "()", "S": "{}", "d": "{}"}.get(tag)
    return f"{brackets[0]}{inner}{brackets[1]}" if brackets else f"{repr(tag[:20])[1:-1]}({inner})"
