"""Write values as JSON text: the half of `values.py` that runs in the process of an answer.

Imports no module that is not always loaded, because each module in a fork server makes its forks slower. Types that
need a module (Decimal, datetime, ...) are recognised by name: their values exist only if their module is loaded.
`values.py` describes the trees.
"""

import sys
from _json import encode_basestring_ascii as quote

MAX_NODES, MAX_DEPTH = 1_000_000, 200
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Unserialisable(ValueError):
    """A value that cannot be written as data; the text says which."""


def encode(value) -> str:
    """The JSON text of a value's tree. Iterators are consumed. Raises Unserialisable."""
    return _Encoder().text(value)


class _Encoder:
    def __init__(self):
        self.nodes = 0

    def text(self, value, depth: int = 0) -> str:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise Unserialisable("too large, too deep or containing itself")
        encoder = _BY_TYPE.get(type(value)) or _encoder_of(type(value))
        return encoder(self, value, depth + 1)

    def items(self, tag: str, values, depth: int) -> str:
        return ",".join([f'["{tag}"', *[self.text(value, depth) for value in values]]) + "]"

    def pairs(self, pairs, depth: int) -> str:
        return self.items("d", (part for pair in pairs for part in pair), depth)


def _float(e, value, depth) -> str:
    text = float.__repr__(value)
    return _NOT_FINITE.get(text, text)


def _complex(e, value, depth):
    value = complex.__complex__(value)
    return e.items("c", (value.real, value.imag), depth)


def _encoder_of(kind):
    """The encoder of a type that is not one of the plain ones: that of a base class, or of numpy or pandas."""
    package = str(getattr(kind, "__module__", None)).partition(".")[0]
    if package == "pandas" and kind.__name__ in _PANDAS:
        return _PANDAS[kind.__name__]
    for base in kind.__mro__[:-1]:
        encoder = _BY_TYPE.get(base) or _by_name(base)
        if encoder is not None:
            return encoder
    if package in ("numpy", "pandas") and hasattr(kind, "tolist"):
        return _array
    if hasattr(kind, "__next__") and hasattr(kind, "__iter__"):
        return lambda e, v, n: e.items("it", v, n)
    return _object


def _by_name(base):
    encoder = _BY_NAME.get((base.__module__, base.__name__)) if type(base.__module__) is str else None
    # An answer may give its own class that name: it must be the class in that module.
    if encoder is not None and getattr(sys.modules.get(base.__module__), base.__name__, None) is base:
        return encoder
    return None


def _object(e, value, depth):
    """Any other value: the name of its class, and its attributes or else what it writes of itself."""
    kind = type(value)
    name = str(kind.__qualname__)
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict and attributes and not callable(value):
        return f'["o",{quote(name)},{e.pairs(attributes.items(), depth)}]'
    text = str.__str__(repr(value))
    if " at 0x" in text:
        raise Unserialisable(f"a value of type {name} cannot be compared")
    return f'["u",{quote(name)},{quote(text)}]'


def _datetime(e, value, depth) -> str:
    """A date with a time by its text; one with a time zone by that of the same moment in UTC."""
    offset = value.utcoffset()
    if offset is None:
        return f'["dt",{quote(value.isoformat())}]'
    return f'["dt",{quote((value.replace(tzinfo=None) - offset).isoformat() + "Z")}]'


def _ratio(e, value, depth) -> str:
    numerator, denominator = value.as_integer_ratio()
    return e.items("fr", (numerator, denominator), depth) if denominator != 1 else e.text(numerator, depth)


def _array(e, value, depth):
    """Of numpy: an array by its shape and items, a scalar as the number it is. Of pandas: what is one column."""
    if getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M") and hasattr(value, "astype"):
        value = value.astype(str)  # which keeps the unit
    plain = value.tolist()
    if type(plain) is not list:
        return e.text(plain, depth)
    return e.items("nd", (tuple(value.shape), plain), depth)


def _frame(e, value, depth):
    columns = [value.iloc[:, i].tolist() for i in range(value.shape[1])]
    return e.items("df", (value.columns.tolist(), value.index.tolist(), *columns), depth)


def _series(e, value, depth):
    return e.items("se", (value.name, value.index.tolist(), value.tolist()), depth)


_PANDAS = {"DataFrame": _frame, "Series": _series, "NaTType": _object}
_BY_TYPE = {
    type(None): lambda e, v, n: "null",
    bool: lambda e, v, n: "true" if v else "false",
    int: lambda e, v, n: int.__repr__(v),
    float: _float,
    str: lambda e, v, n: quote(v),
    complex: _complex,
    bytes: lambda e, v, n: f'["y","{bytes.hex(v)}"]',
    bytearray: lambda e, v, n: f'["y","{bytearray.hex(v)}"]',
    list: lambda e, v, n: e.items("l", list.__iter__(v), n),
    tuple: lambda e, v, n: e.items("t", tuple.__iter__(v), n),
    set: lambda e, v, n: e.items("S", set.__iter__(v), n),
    frozenset: lambda e, v, n: e.items("S", frozenset.__iter__(v), n),
    dict: lambda e, v, n: e.pairs(dict.items(v), n),
    type({}.keys()): lambda e, v, n: e.items("S", v, n),
    type({}.values()): lambda e, v, n: e.items("it", v, n),
}
_BY_NAME = {("datetime", "datetime"): _datetime, ("decimal", "Decimal"): _ratio, ("fractions", "Fraction"): _ratio}
