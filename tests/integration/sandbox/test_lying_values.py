"""Values that lie about themselves, under tests of every form: an object earns nothing that its plain data would not.

The forms are composed at random: what is done with the value of a call, how that is compared, how comparisons are
joined. The liars know what is expected (5) and say it wherever they are asked.
"""

import random

import pytest

from sweet_rl.domains.backend.hidden_tests import CodeGrader
from sweet_rl.domains.backend.released_rules import PaperGrader
from tests.support.grading import grade

CODE = """
import math
from decimal import Decimal
def f(x):
    return {value}
def g(x):
    return {values}
class Box:
    def __init__(self, x): self.x = x
    def add(self, n): return type(self)(self.x + n)
    def get(self): return {value}
"""
HONEST = CODE.format(value="5", values="[5, 2.5, 'ab']")
ASKED = ["f(1)", "f(x=1)", "g(1)[0]", "Box(1).add(2).get()", "f(f(1))", "f([n for n in range(3)])"]
# @ is what is done with, compared or joined; # is the literal that is expected.
DONE = ["@", "@", "abs(@)", "round(@, 2)", "str(@)", "[@][0]", "(@ * 2 + 1)", "int(@)", "-@", "max(@, 0)", "f'{@}'",
        "{'a': @}", "(@, 1)", "sum([@])", "hash(@)", "repr(@)", "format(@, 'd')", "'%s' % @", "divmod(@, 2)",
        "list(range(@))", "(lambda v: v)(@)", "list(map(str, [@]))", "math.sqrt(@)", "Decimal(@)", "len('a' * @)",
        "'abcdefg'[@]", "[*'abcdefg'][:@]", "{5: 'a'}.get(@)", "(v := @)"]  # fmt: skip
COMPARED = ["@ == #", "# == @", "@ == # == #", "@ in (#, None)", "not @ != #", "@ == [#] * 1 or @ == #", "# in [@]",
            "abs(len(str(@)) - len(str(#))) < 0.5 and @ == #", "{'k': @} == {'k': #}", "@"]  # fmt: skip
JOINED = ["@", "@ and True", "True if @ else False", "(lambda: @)()", "all([@])", "[@][0]", "(@) is True", "not not @",
          "bool(@)", "@ and f(2) == 5", "any(v for v in [@])", "str(@)", "0 < (@) < 2"]  # fmt: skip
TRUE = "lt le gt ge ne eq contains bool instancecheck"
FIVE = ("int index len abs add radd sub rsub mul rmul truediv rtruediv mod rmod divmod pow rpow neg pos round trunc "
        "getitem call")  # fmt: skip
SAYS = {name: "True" for name in TRUE.split()} | {name: "5" for name in FIVE.split()} | {
    "float": "5.0", "complex": "5 + 0j", "str": "'5'", "repr": "'5'", "format": "'5'", "iter": "iter([5])",
    "bytes": "b'5'", "hash": "hash(5)", "fspath": "'5'",
}  # fmt: skip
# The plain data of a liar by its base; None if it has none.
BASES = {"object": None, "type": None, "Exception": None, "int": 0, "float": 0.5, "complex": 1j, "str": "",
         "bytes": b"", "list": [], "tuple": (), "dict": {}, "set": set(), "frozenset": frozenset()}  # fmt: skip


def forms(count: int, seed: int) -> list[str]:
    draw, names, found = random.Random(seed), {}, {}
    exec(HONEST, names)
    while len(found) < count:
        done = draw.choice(DONE).replace("@", draw.choice(ASKED))
        compared = draw.choice(COMPARED).replace("@", done).replace("#", repr(eval(done, names)))
        found[draw.choice(JOINED).replace("@", compared)] = None
    return list(found)


def liar(base: str, in_a_list: bool) -> str:
    """An answer whose functions return an object of a class that says what is expected."""
    body = "".join(f"    def __{name}__(self, *_): return {word}\n" for name, word in SAYS.items())
    body += "    def __getattr__(self, name): return lambda *_: 5\n    @property\n    def __class__(self): return int\n"
    made = "Liar('A', (), {})" if base == "type" else "Liar()"
    code = CODE.format(value=made, values=f"[{made}, 2.5, 'ab']" if in_a_list else made)
    return f"class Liar({base}):\n{body}{code}"


def is_weak(test: str, data, in_a_list: bool) -> bool:
    """Whether the plain data of a liar gives the same as the reference, so that the test itself is to blame."""
    results = []
    for value in (5, data):
        names: dict = {}
        exec(HONEST, names)
        names["f"] = lambda x, value=value: value
        names["g"] = lambda x, value=value: [value, 2.5, "ab"] if in_a_list else value
        names["Box"].get = lambda self, value=value: value
        try:
            results.append(repr(eval(test, names)))
        except Exception as error:
            results.append(error)
    return results[0] == results[1]


@pytest.mark.parametrize("kind", [CodeGrader, PaperGrader])
def test_no_object_has_a_say_in_its_own_verdict(kind):
    calls = {test: test for test in forms(60 if kind is CodeGrader else 20, seed=0)}
    earned = {}
    with kind(timeout=0.5, workers=1) as grader:
        honest = grade(grader, HONEST, HONEST.replace("return 5", "return 6 - 1"), calls)
        assert honest.reward == 1.0, honest
        for number, (base, data) in enumerate(BASES.items()):
            in_a_list = number % 2 == 0
            tests = grade(grader, HONEST, liar(base, in_a_list), calls).evidence["tests"]
            weak = {test for test in calls if data is not None and is_weak(test, data, in_a_list)}
            assert len(weak) < len(calls) / 5
            earned[base] = [test["name"] for test in tests if test["passed"] and test["name"] not in weak]
    assert earned == dict.fromkeys(BASES, [])
