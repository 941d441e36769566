"""Values as typed data: `encode` in the sandbox, `same` and `preview` in the grading process.

A value leaves the sandbox as a tree that JSON can write, and is compared there tree against tree: no method of an
answer's object is ever called where the reference's results are. Standard library only, because the warm process
loads this file by its path.

The tree: None, bools, strings, finite floats and ints of up to 60 bits stand for themselves; everything else is a
list whose first item is a tag: i (hexadecimal int), f (nan, inf, -inf), c complex, dec Decimal, fr Fraction,
y bytes, l list, t tuple, S set, d dict, q deque, it iterator, r range, dt datetime, da date, ti time,
td timedelta, nd array, df frame, se series, na missing, u text-like (UUID, path), o object.
"""

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

REL_TOLERANCE, ABS_TOLERANCE = 1e-9, 1e-12
MAX_NODES, MAX_DEPTH = 200_000, 80
MICROSECOND = timedelta(microseconds=1)


class Unserialisable(ValueError):
    """A value that cannot be told as data; the text says which."""


# ---------------------------------------------------------------------------------------------- in the sandbox


def encode(value) -> list | dict | str | int | float | None:
    """The tree of a value. Iterators are run to their end. Raises Unserialisable."""
    return _Encoder().tree(value)


class _Encoder:
    def __init__(self):
        self.nodes = 0

    def tree(self, value, depth: int = 0):
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise Unserialisable("too large, too deep or containing itself")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -(1 << 60) < value < (1 << 60) else ["i", hex(value)]
        if kind is float:
            return value if math.isfinite(value) else ["f", repr(value)]
        encoder = _BY_TYPE.get(kind)
        if encoder is None:
            encoder = next((_BY_TYPE[base] for base in kind.__mro__ if base in _BY_TYPE), None)
        if encoder is None:
            encoder = _by_shape(kind)
        return encoder(self, value, depth + 1)

    def items(self, tag: str, values, depth: int) -> list:
        return [tag, *[self.tree(value, depth) for value in values]]


def _by_shape(kind):
    """The encoder of a type that is none of the standard ones."""
    module = (getattr(kind, "__module__", None) or "").split(".")[0]
    if module == "numpy":
        return _array if kind.__name__ == "ndarray" else _numpy_scalar
    if module == "pandas" and kind.__name__ in _PANDAS:
        return _PANDAS[kind.__name__]
    if kind.__name__ in ("dict_keys", "dict_items", "dict_values") and kind.__module__ == "builtins":
        return lambda e, v, n: e.items("S" if kind.__name__ != "dict_values" else "it", v, n)
    if issubclass(kind, (PurePath, UUID)):
        return lambda e, v, n: ["u", kind.__name__, str(v)]
    if issubclass(kind, BaseException):
        return lambda e, v, n: ["o", kind.__qualname__, ["args", e.items("t", v.args, n)]]
    if issubclass(kind, (Enum,)):
        return lambda e, v, n: ["o", kind.__qualname__, ["name", v.name]]
    if hasattr(kind, "__next__") and hasattr(kind, "__iter__"):
        return lambda e, v, n: e.items("it", v, n)
    return _object


def _number(convert):
    return lambda e, v, n: e.tree(convert(v), n)


def _complex(e, value, depth):
    return ["c", e.tree(value.real, depth), e.tree(value.imag, depth)]


def _dict(e, value, depth):
    return ["d", *[[e.tree(k, depth), e.tree(v, depth)] for k, v in dict.items(value)]]


def _datetime(e, value, depth):
    offset = value.utcoffset()
    fields = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return ["dt", *fields, None if offset is None else offset // MICROSECOND]


def _time(e, value, depth):
    offset = value.utcoffset()
    fields = [value.hour, value.minute, value.second, value.microsecond]
    return ["ti", *fields, None if offset is None else offset // MICROSECOND]


def _object(e, value, depth):
    """A plain object or dataclass by its class's name and its attributes."""
    kind = type(value)
    attributes = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    written_in_python = "__dict__" in dir(kind) or attributes
    attributes.update(getattr(value, "__dict__", {}))
    if isinstance(value, type) or callable(value) or not written_in_python or not attributes:
        raise Unserialisable(f"a value of type {kind.__qualname__} cannot be compared")
    return ["o", kind.__qualname__, *[[str(k), e.tree(v, depth)] for k, v in attributes.items()]]


def _class(e, value, depth):
    if value.__module__ != "builtins":
        raise Unserialisable(f"the class {value.__qualname__} cannot be compared")
    return ["u", "type", value.__qualname__]


def _array(e, value, depth):
    return ["nd", [int(n) for n in value.shape], *[e.tree(item, depth) for item in value.ravel().tolist()]]


def _numpy_scalar(e, value, depth):
    if not hasattr(value, "item") or type(value.item()) is type(value):
        raise Unserialisable(f"a value of type {type(value).__qualname__} cannot be compared")
    return e.tree(value.item(), depth)


def _frame(e, value, depth):
    columns = [e.items("l", value.iloc[:, i].tolist(), depth) for i in range(value.shape[1])]
    return [
        "df",
        e.items("l", value.columns.tolist(), depth),
        e.items("l", value.index.tolist(), depth),
        *columns,
    ]


def _series(e, value, depth):
    return [
        "se",
        e.tree(value.name, depth),
        e.items("l", value.index.tolist(), depth),
        e.items("l", value.tolist(), depth),
    ]


_PANDAS = {
    "DataFrame": _frame,
    "Series": _series,
    "NAType": lambda e, v, n: ["na"],
    "NaTType": lambda e, v, n: ["na"],
    "Timedelta": lambda e, v, n: ["td", v.to_pytimedelta() // MICROSECOND],
}


def _standard_encoders() -> dict:
    from collections import deque

    return {
        type(None): lambda e, v, n: None,
        bool: lambda e, v, n: v,
        int: _number(int.__int__),
        float: _number(float.__float__),
        str: lambda e, v, n: "".join(str.__iter__(v)),
        complex: _complex,
        Decimal: lambda e, v, n: ["dec", Decimal.__str__(v)],
        Fraction: lambda e, v, n: ["fr", e.tree(v.numerator, n), e.tree(v.denominator, n)],
        bytes: lambda e, v, n: ["y", bytes.hex(v)],
        bytearray: lambda e, v, n: ["y", bytearray.hex(v)],
        list: lambda e, v, n: e.items("l", list.__iter__(v), n),
        tuple: lambda e, v, n: e.items("t", tuple.__iter__(v), n),
        set: lambda e, v, n: e.items("S", set.__iter__(v), n),
        frozenset: lambda e, v, n: e.items("S", frozenset.__iter__(v), n),
        dict: _dict,
        deque: lambda e, v, n: e.items("q", deque.__iter__(v), n),
        range: lambda e, v, n: e.items("r", v if len(v) < 2 else (v[0], v[1], v[-1]), n),
        datetime: _datetime,
        date: lambda e, v, n: ["da", v.year, v.month, v.day],
        time: _time,
        timedelta: lambda e, v, n: ["td", v // MICROSECOND],
        type: _class,
    }


from enum import Enum  # noqa: E402
from pathlib import PurePath  # noqa: E402
from uuid import UUID  # noqa: E402

_BY_TYPE = _standard_encoders()

# --------------------------------------------------------------------------------------- in the grading process


def same(expected, got) -> bool:
    """Whether two trees stand for equal values, as `==` would say of honest values.

    Differences from `==`: NaN equals NaN; where the reference's number is a float, a relative difference of 1e-9
    (or 1e-12 near zero) is allowed; objects are equal when class name and attributes are; iterators by their
    items; arrays by shape and items; a class's own `__eq__` is never asked.
    got: untrusted; anything that is no tree is different. The walk is led by `expected`, so its cost is bounded
    by the reference's value, however large or deep the other is.
    """
    try:
        return _same(expected, got)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        return False


def _same(expected, got) -> bool:
    number = _as_number(expected)
    if number is not None:
        other = _as_number(got)
        return other is not None and _same_number(number, other)
    if type(expected) is not list:
        return type(expected) is type(got) and expected == got
    if type(got) is not list or len(expected) != len(got) or expected[0] != got[0]:
        return False
    tag = expected[0]
    if tag in ("l", "t", "q", "it", "r"):
        return all(_same(a, b) for a, b in zip(expected[1:], got[1:], strict=True))
    if tag == "S":
        return _same_set(expected[1:], got[1:])
    if tag == "d":
        return _same_dict(expected[1:], got[1:])
    if tag == "o":
        return expected[1] == got[1] and _same_dict(expected[2:], got[2:])
    if tag in ("dt", "ti"):
        return _moment(expected) == _moment(got)
    if tag == "nd":
        return expected[1] == got[1] and all(_same(a, b) for a, b in zip(expected[2:], got[2:], strict=True))
    if tag in ("df", "se"):
        return all(_same(a, b) for a, b in zip(expected[1:], got[1:], strict=True))
    return expected == got  # y, da, td, na, u: flat


def _as_number(tree):
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
        return Fraction(_as_number(tree[1]), _as_number(tree[2]))
    if tree[0] == "c":
        return complex(_as_number(tree[1]), _as_number(tree[2]))
    return None


def _same_number(expected, got) -> bool:
    if expected == got:
        return True
    if type(expected) is Decimal and type(got) is Decimal:
        return expected.is_nan() and got.is_nan()
    if type(expected) is complex and type(got) in (complex, float, int, bool):
        got = complex(got)
        return _same_number(expected.real, got.real) and _same_number(expected.imag, got.imag)
    if type(expected) is not float or type(got) not in (float, int, bool):
        return False
    if math.isnan(expected):
        return type(got) is float and math.isnan(got)
    return math.isclose(expected, got, rel_tol=REL_TOLERANCE, abs_tol=ABS_TOLERANCE)


def _key(tree):
    """A hashable that is equal for equal trees; what dict keys and set members are found by."""
    number = _as_number(tree)
    if number is not None:
        return "nan" if number != number else ("number", number)
    if type(tree) is not list:
        return ("plain", tree)
    if tree[0] == "S":
        return ("S", frozenset(_key(item) for item in tree[1:]))
    if tree[0] in ("dt", "ti"):
        return (tree[0], _moment(tree))
    return tuple(item if i == 0 else _key(item) for i, item in enumerate(tree))


def _same_set(expected: list, got: list) -> bool:
    if {_key(item) for item in expected} == {_key(item) for item in got}:
        return True
    numbers, others = [_as_number(item) for item in expected], [_as_number(item) for item in got]
    if None in numbers or None in others:
        return False
    return all(_same_number(a, b) for a, b in zip(sorted(numbers), sorted(others), strict=True))


def _same_dict(expected: list, got: list) -> bool:
    others = {_key(k): v for k, v in got}
    if len(others) != len(expected):
        return False
    missing = object()
    for k, v in expected:
        other = others.get(_key(k), missing)
        if other is missing or not _same(v, other):
            return False
    return True


def _moment(tree):
    """Naive times as they are, aware ones by their instant."""
    *fields, offset = tree[1:]
    if tree[0] == "ti":
        return (
            offset is None,
            timedelta(0, fields[2], fields[3], 0, fields[1], fields[0]) - (offset or 0) * MICROSECOND,
        )
    moment = datetime(*fields)
    return (offset is None, (moment - datetime(2000, 1, 1)) // MICROSECOND - (offset or 0))


def preview(tree, width: int = 120) -> str:
    """A short text of a tree for people; never raises, whatever the tree."""
    text = _preview(tree, 0, [60])
    return text if len(text) <= width else text[: width - 1] + "…"


def _preview(tree, depth: int, budget: list) -> str:
    budget[0] -= 1
    if budget[0] < 0 or depth > 6:
        return "…"
    if type(tree) is str:
        return repr(tree[:200])
    if type(tree) is not list or not tree:
        return repr(tree)[:60]
    tag, items = str(tree[0]), tree[1:]
    shapes = {"l": "[]", "t": "()", "S": "{}", "d": "{}", "q": ("deque([", "])"), "it": ("iterator(", ")")}
    if tag == "d" and all(type(item) is list and len(item) == 2 for item in items):
        inner = [f"{_preview(k, depth + 1, budget)}: {_preview(v, depth + 1, budget)}" for k, v in items[:30]]
    else:
        inner = [_preview(item, depth + 1, budget) for item in items[:30]]
    start, end = shapes.get(tag, (f"{tag[:20]}(", ")"))
    comma = "," if tag == "t" and len(items) == 1 else ""
    return f"{start}{', '.join(inner)}{comma}{end}"
