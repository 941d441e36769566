"""A small answer that every warm process runs before its first fork: what answers mostly use, used once."""


def f(a, b=2):
    c = {"k": [a, b], 1: (a, 2.5)}
    for i in range(3):
        c[str(i)] = f"{i:02d}".join(sorted(["b", "a"])).split("x")
    try:
        return [i * a for i in range(b) if i] + [c["z"]]
    except KeyError as error:
        return [c, {a, b}, None, True, a / 3, "text".upper(), str(error), sum(x for x in (1, 2)), max(a, b)]


class A:
    def __init__(self, x):
        self.x = x
