"""Write values as JSON text: the half of `values.py` that runs in the process of an answer.

Imports no module that is not always loaded, because each module in a warm process makes its forks slower. Types that
need a module (Decimal, datetime, ...) are recognised by name: their values exist only if their module is loaded.
`values.py` describes the trees.
"""

import sys

MAX_NODES, MAX_DEPTH = 1_000_000, 200
PLAIN_INT = 1 << 60
_MODULES_OF_CLASSES = {*sys.stdlib_module_names, "numpy", "pandas"} - {"__main__"}
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
        encoder = _BY_TYPE.get(type(value))
        if encoder is None:
            encoder = _encoder_of(type(value))
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


def _encoder_of(kind):
    """The encoder of a type that is not one of the plain ones."""
    module = str(getattr(kind, "__module__", None)).split(".")[0]
    for base in kind.__mro__[:-1]:
        encoder = _BY_TYPE.get(base) or _by_name(base)
        if module == "pandas":
            encoder = _PANDAS.get(base.__name__, encoder)
        if encoder is not None:
            return encoder
    if module == "sympy":
        return _expression
    if module == "numpy":
        return _array if any(base.__name__ == "ndarray" for base in kind.__mro__) else _numpy_scalar
    if hasattr(kind, "__next__") and hasattr(kind, "__iter__"):
        return lambda e, v, n: e.items("it", v, n)
    return _object


def _by_name(base):
    encoder = _BY_NAME.get((base.__module__, base.__name__)) if type(base.__module__) is str else None
    # An answer may give its own class that name: it must be the class in that module.
    if encoder is not None and getattr(sys.modules.get(base.__module__), base.__name__, None) is base:
        return encoder
    return None


def _complex(e, value, depth):
    value = complex.__complex__(value) if hasattr(complex, "__complex__") else complex(value)
    return f'["c",{e.text(value.real, depth)},{e.text(value.imag, depth)}]'


def _fields(tag, fields, offset) -> str:
    seconds = "null" if offset is None else str((offset.days * 86400 + offset.seconds) * 10**6 + offset.microseconds)
    return f'["{tag}",{",".join(map(str, fields))},{seconds}]'


def _datetime(e, v, n):
    text = _fields("dt", (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond), v.utcoffset())
    nanosecond = getattr(v, "nanosecond", 0)  # pandas
    return f'["t",{text},{int(nanosecond)}]' if nanosecond else text


def _time(e, v, n):
    return _fields("ti", (v.hour, v.minute, v.second, v.microsecond), v.utcoffset())


def _timedelta(e, v, n):
    if hasattr(v, "to_pytimedelta"):  # pandas, down to nanoseconds
        return f'["td",{v.value // 1000},{v.value % 1000}]'
    return f'["td",{(v.days * 86400 + v.seconds) * 10**6 + v.microseconds},0]'


def _object(e, value, depth):
    """A plain object or dataclass: the name of its class and its attributes."""
    kind = type(value)
    attributes = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):  # as Python mangles it
                name = f"_{base.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    written_in_python = "__dict__" in dir(kind) or attributes
    attributes.update(getattr(value, "__dict__", {}))
    if isinstance(value, type) or callable(value) or not written_in_python or not attributes:
        raise Unserialisable(f"a value of type {kind.__qualname__} cannot be compared")
    return e.pairs(f'"o",{quote(str(kind.__qualname__))}', [(str(k), v) for k, v in attributes.items()], depth)


def _named(e, kind, name, value, depth) -> str:
    return e.pairs(f'"o",{quote(str(kind.__qualname__))}', [(name, value)], depth)


def _member(e, value, depth):
    """A member of an enumeration: its name and, if it can be written, its value."""
    kind, name = type(value), value.name
    try:
        return e.pairs(f'"o",{quote(str(kind.__qualname__))}', [("name", name), ("value", value.value)], depth)
    except Unserialisable:
        return _named(e, kind, "name", name, depth)


def _class(e, value, depth):
    if str(value.__module__).partition(".")[0] not in _MODULES_OF_CLASSES:
        raise Unserialisable(f"the class {value.__qualname__} cannot be compared")
    return f'["u","type",{quote(f"{value.__module__}.{value.__qualname__}")}]'


def _array(e, value, depth):
    if value.dtype.kind in "mM":  # dates and durations: as text, which keeps the unit
        items = value.ravel().astype(str).tolist()
        return f'["nd",{list(value.shape)},{e.items(value.dtype.kind, items, depth)}]'
    fields = value.dtype.names
    items = ["", *([] if fields is None else [e.items("l", fields, depth)])]
    items += [e.text(item, depth) for item in value.ravel().tolist()]
    return f'["nd",{[int(n) for n in value.shape]}{",".join(items)}]'


def _numpy_scalar(e, value, depth):
    if getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M"):
        return f'["u",{quote(value.dtype.str)},{quote(str(value))}]'
    if not hasattr(value, "item"):  # no scalar
        return _object(e, value, depth)
    plain = value.item()
    if type(plain) is type(value):  # of more digits than Python's
        plain = complex(value) if value.dtype.kind == "c" else float(value)
    return e.text(plain, depth)


def _view(e, value, depth):
    """A memoryview: of bytes equal to them, of numbers to an array of them."""
    return f'["y","{value.tobytes().hex()}"]' if value.format == "B" else e.items("ar", value.tolist(), depth)


def _expression(e, value, depth):
    """What sympy writes: a number as one, all else by its structure."""
    for kind, plain in (("Integer", int), ("Float", float), ("BooleanAtom", bool)):
        if any(base.__name__ == kind for base in type(value).__mro__):
            return e.text(plain(value), depth)
    if getattr(value, "is_Rational", False):
        return f'["fr",{e.text(int(value.p), depth)},{e.text(int(value.q), depth)}]'
    if hasattr(value, "tolist"):
        return e.items("l", [[*map(int, value.shape)], value.tolist()], depth)
    return f'["u","sympy",{quote(sys.modules["sympy"].srepr(value))}]'


def _frame(e, value, depth):
    columns = [e.items("l", value.iloc[:, i].tolist(), depth) for i in range(value.shape[1])]
    labels = e.items("l", value.columns.tolist(), depth), e.items("l", value.index.tolist(), depth)
    return f'["df",{",".join([*labels, *columns])}]'


def _series(e, value, depth):
    items = e.items("l", value.index.tolist(), depth), e.items("l", value.tolist(), depth)
    return f'["se",{e.text(value.name, depth)},{",".join(items)}]'


def _index(e, value, depth):
    return f'["ix",{e.text(value.name, depth)},{e.items("l", value.tolist(), depth)}]'


_PANDAS = {
    "_Timestamp": _datetime,
    "_Timedelta": _timedelta,
    "ExtensionArray": lambda e, v, n: e.items("ar", v.tolist(), n),
    "_Period": lambda e, v, n: f'["u",{quote(v.freqstr)},{quote(str(v))}]',
    "Interval": lambda e, v, n: e.items(f"{v.closed} interval", (v.left, v.right), n),
    "Index": _index,
    "DataFrame": _frame,
    "Series": _series,
    "NAType": lambda e, v, n: '["na"]',
    "NaTType": lambda e, v, n: '["na"]',
}
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
    slice: lambda e, v, n: e.items("sl", (v.start, v.stop, v.step), n),
    memoryview: _view,
    type(type.__dict__): lambda e, v, n: e.pairs('"d"', v.items(), n),
    type(...): lambda e, v, n: '["u","singleton","Ellipsis"]',
    type(NotImplemented): lambda e, v, n: '["u","singleton","NotImplemented"]',
    type: _class,
    BaseException: lambda e, v, n: _named(e, type(v), "args", v.args, n),
}
_BY_NAME = {
    ("decimal", "Decimal"): lambda e, v, n: f'["dec","{v!s}"]',
    ("fractions", "Fraction"): lambda e, v, n: f'["fr",{e.text(v.numerator, n)},{e.text(v.denominator, n)}]',
    ("collections", "OrderedDict"): lambda e, v, n: e.pairs('"od"', dict.items(v), n),
    ("collections", "Counter"): lambda e, v, n: e.pairs('"Counter"', dict.items(v), n),
    ("collections", "deque"): lambda e, v, n: e.items("q", v, n),
    ("collections", "UserDict"): lambda e, v, n: e.pairs('"d"', v.items(), n),
    ("collections", "ChainMap"): lambda e, v, n: e.pairs('"d"', v.items(), n),
    ("collections", "UserList"): lambda e, v, n: e.items("l", v, n),
    ("collections", "UserString"): lambda e, v, n: e.text(str(v), n),
    ("array", "array"): lambda e, v, n: e.items("ar", v, n),
    ("re", "Pattern"): lambda e, v, n: e.items("re", (v.pattern, v.flags), n),
    ("zoneinfo", "ZoneInfo"): lambda e, v, n: f'["u","ZoneInfo",{quote(str(v))}]',
    ("datetime", "timezone"): lambda e, v, n: f'["u","timezone",{quote(str(v.utcoffset(None)))}]',
    ("datetime", "datetime"): _datetime,
    ("datetime", "date"): lambda e, v, n: f'["da",{v.year},{v.month},{v.day}]',
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _timedelta,
    ("enum", "Enum"): _member,
    ("numpy", "dtype"): lambda e, v, n: f'["u","dtype",{quote(str(v))}]',
    ("uuid", "UUID"): lambda e, v, n: f'["u","UUID",{quote(str(v))}]',
    ("pathlib", "PurePath"): lambda e, v, n: f'["u",{quote(type(v).__name__)},{quote(str(v))}]',
}
