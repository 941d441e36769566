"""Values that lie about themselves, under every form of a test: an object earns nothing that its plain data would not.

The liars know what is expected (5) and say it wherever they are asked.
"""

import pytest

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.backend.released_rules import PaperGrader
from tests.support.grading import grade

CODE = """
def f(x):
    return {value}
def g(x):
    return {values}
class Box:
    def __init__(self, x): self.x = {value}
"""
HONEST = CODE.format(value="5", values="[5, 2.5, 'ab']")
CALLS = ["f(1)", "f(x=1)", "f(f(1))", "f([n for n in range(3)])", "g(1)", "f(1) == 5", "f(x=1) == 5", "f(1) == 5.0",
         "g(1) == [5, 2.5, 'ab']", "g(2) == [5, 2.5, 'ab']"]  # fmt: skip
TRUE = "lt le gt ge ne eq contains bool instancecheck"
FIVE = ("int index len abs add radd sub rsub mul rmul truediv rtruediv mod rmod divmod pow rpow neg pos round trunc "
        "getitem call")  # fmt: skip
SAYS = {name: "True" for name in TRUE.split()} | {name: "5" for name in FIVE.split()} | {
    "float": "5.0", "complex": "5 + 0j", "str": "'5'", "repr": "'5'", "format": "'5'", "iter": "iter([5])",
    "bytes": "b'5'", "hash": "hash(5)", "fspath": "'5'",
}  # fmt: skip
BASES = ("object", "type", "Exception", "int", "float", "complex", "str", "bytes", "list", "tuple", "dict", "set",
         "frozenset")  # fmt: skip


def liar(base: str, in_a_list: bool) -> str:
    """An answer whose functions return an object of a class that says what is expected."""
    body = "".join(f"    def __{name}__(self, *_): return {word}\n" for name, word in SAYS.items())
    body += "    def __getattr__(self, name): return lambda *_: 5\n    @property\n    def __class__(self): return int\n"
    made = "Liar('A', (), {})" if base == "type" else "Liar()"
    code = CODE.format(value=made, values=f"[{made}, 2.5, 'ab']" if in_a_list else made)
    return f"class Liar({base}):\n{body}{code}"


@pytest.mark.parametrize("kind", [CodeGrader, PaperGrader])
def test_no_object_has_a_say_in_its_own_verdict(kind):
    calls = {test: test for test in CALLS}
    if kind is CodeGrader:  # under the rules of the release no two objects are equal
        calls["Box(1)"] = "Box(1)"
    earned = {}
    with kind(timeout=0.5, workers=1) as grader:
        honest = grade(grader, HONEST, HONEST.replace("return 5", "return 6 - 1"), calls)
        assert honest.reward == 1.0, honest
        for number, base in enumerate(BASES):
            tests = grade(grader, HONEST, liar(base, in_a_list=number % 2 == 0), calls).evidence["tests"]
            earned[base] = [test["name"] for test in tests if test["passed"]]
    assert earned == dict.fromkeys(BASES, [])
