"""Write values as JSON text: the half of `values.py` that runs in the process of an answer.

Imports no module that is not always loaded, because each module in a fork server makes its forks slower. Types that
need a module (Decimal, datetime, ...) are recognised by name: their values exist only if their module is loaded.
`values.py` describes the trees.
"""

import sys

MAX_NODES, MAX_DEPTH = 1_000_000, 200
PLAIN_INT = 1 << 60
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), ord('"'), ord("\\"))}


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

    def pairs(self, start: str, pairs, depth: int) -> str:
        text = self.text
        return ",".join([f"[{start}", *[f"[{text(k, depth)},{text(v, depth)}]" for k, v in pairs]]) + "]"


def quote(text: str) -> str:
    """A string as JSON; one with lone surrogates, which JSON would join to pairs, as ["sp", hex of its UTF-8]."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    try:
        text.encode()
    except UnicodeEncodeError:
        return f'["sp","{text.encode("utf-8", "surrogatepass").hex()}"]'
    return f'"{text.translate(_ESCAPES)}"'


def _int(e, value, depth) -> str:
    value = int.__int__(value)
    return int.__repr__(value) if -PLAIN_INT < value < PLAIN_INT else f'["i","{value:x}"]'


def _float(e, value, depth) -> str:
    value = float.__float__(value)
    return float.__repr__(value) if value - value == 0.0 else f'["f","{value!r}"]'


def _complex(e, value, depth):
    value = complex.__complex__(value)
    return f'["c",{e.text(value.real, depth)},{e.text(value.imag, depth)}]'


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
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict and attributes and not callable(value):
        return e.pairs(f'"o",{quote(str(kind.__qualname__))}', [(str(k), v) for k, v in attributes.items()], depth)
    text = str.__str__(repr(value))
    if " at 0x" in text:
        raise Unserialisable(f"a value of type {kind.__qualname__} cannot be compared")
    return f'["u",{quote(str(kind.__qualname__))},{quote(text)}]'


def _fields(tag, fields, offset) -> str:
    seconds = "null" if offset is None else str((offset.days * 86400 + offset.seconds) * 10**6 + offset.microseconds)
    return f'["{tag}",{",".join(map(str, fields))},{seconds}]'


def _datetime(e, v, n):
    return _fields("dt", (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond), v.utcoffset())


def _time(e, v, n):
    return _fields("ti", (v.hour, v.minute, v.second, v.microsecond), v.utcoffset())


def _array(e, value, depth):
    """Of numpy: an array by its shape and items, a scalar as the number it is. Of pandas: what is one column."""
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", None) in ("m", "M") and hasattr(value, "astype"):  # as text, which keeps the unit
        value = value.astype(str)
    plain = value.tolist()
    if type(plain) is type(value):  # of more digits than Python's
        plain = complex(value) if dtype.kind == "c" else float(value)
    if type(plain) is not list:
        return e.text(plain, depth)
    return f'["nd",{[int(n) for n in value.shape]},{e.items("l", plain, depth)}]'


def _frame(e, value, depth):
    columns = [e.items("l", value.iloc[:, i].tolist(), depth) for i in range(value.shape[1])]
    labels = e.items("l", value.columns.tolist(), depth), e.items("l", value.index.tolist(), depth)
    return f'["df",{",".join([*labels, *columns])}]'


def _series(e, value, depth):
    items = e.items("l", value.index.tolist(), depth), e.items("l", value.tolist(), depth)
    return f'["se",{e.text(value.name, depth)},{",".join(items)}]'


_PANDAS = {"DataFrame": _frame, "Series": _series, "NaTType": _object}
_BY_TYPE = {
    type(None): lambda e, v, n: "null",
    bool: lambda e, v, n: "true" if v else "false",
    int: _int,
    float: _float,
    str: lambda e, v, n: quote("".join(str.__iter__(v)) if type(v) is not str else v),
    complex: _complex,
    bytes: lambda e, v, n: f'["y","{bytes.hex(v)}"]',
    bytearray: lambda e, v, n: f'["y","{bytearray.hex(v)}"]',
    list: lambda e, v, n: e.items("l", list.__iter__(v), n),
    tuple: lambda e, v, n: e.items("t", tuple.__iter__(v), n),
    set: lambda e, v, n: e.items("S", set.__iter__(v), n),
    frozenset: lambda e, v, n: e.items("S", frozenset.__iter__(v), n),
    dict: lambda e, v, n: e.pairs('"d"', dict.items(v), n),
    type({}.keys()): lambda e, v, n: e.items("S", v, n),
    type({}.items()): lambda e, v, n: e.items("S", v, n),
    type({}.values()): lambda e, v, n: e.items("it", v, n),
    range: lambda e, v, n: e.items("r", v if len(v) < 2 else (v[0], v[1], v[-1]), n),
}
_BY_NAME = {
    ("decimal", "Decimal"): lambda e, v, n: f'["dec","{v!s}"]',
    ("fractions", "Fraction"): lambda e, v, n: f'["fr",{e.text(v.numerator, n)},{e.text(v.denominator, n)}]',
    ("collections", "OrderedDict"): lambda e, v, n: e.pairs('"od"', dict.items(v), n),
    ("collections", "deque"): lambda e, v, n: e.items("q", v, n),
    ("datetime", "datetime"): _datetime,
    ("datetime", "date"): lambda e, v, n: f'["da",{v.year},{v.month},{v.day}]',
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): lambda e, v, n: f'["td",{(v.days * 86400 + v.seconds) * 10**6 + v.microseconds}]',
}
