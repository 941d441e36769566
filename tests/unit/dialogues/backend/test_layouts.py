"""The solution is found beside stubs that do nothing, and in fences that share their lines with words."""

import ast
import itertools

import pytest

from sweet_rl.dialogues.backend.extract_code import code_candidates

SOLUTION = (
    "import math\n\ndef f(x, y=1):\n    '''Why: ``x``.'''\n    if x:\n        pass  # nothing\n"
    "    return math.floor(x) * y"
)
OPENINGS = ["Here you go: ```python", "Final code ```", "1. Code: ~~~py", "**Answer:** ```python3"]
CLOSINGS = ["", "\n", " Done.", "\n\nIt handles 0 and -1."]
HEADERS = ["def f(x, y=1):", "def f(\n    x: dict,\n    y=1,\n) -> int:  # yours", "async def f(x, y=1):"]
BODIES = [
    "", " pass", " ...", " raise NotImplementedError", "\n    # TODO\n    pass", "\n    pass  # TODO: write me",
    "\n    raise NotImplementedError('later')", '\n    """Return: x."""\n\n    # your code here\n    ...',
    "\n# at the margin\n    'doc'\n    raise NotImplementedError()  # here",
    '\n    r"""Say.\n\n    more: words\n    """\n    raise NotImplementedError',
]  # fmt: skip
WORK = [
    "def f(x, y=1): return x", "def f(x, y=1):\n    return None", "def f(x, y=1):\n    # TODO\n    return x",
    "def f(x, y=1):\n    if x:\n        raise NotImplementedError\n    return 1",
    "def f(x, y=1):\n    for i in x:\n        pass",
    "def f(x, y=1):\n    raise NotImplementedErrors", "def f(x, y=1): x.pass_(y)", "def f(x: 'pass', y=1): return x",
]  # fmt: skip


def chosen(answer: str) -> str:
    """The text that is run: the first that is Python."""
    for text in code_candidates(answer, "f"):
        try:
            return ast.unparse(ast.parse(text))
        except SyntaxError:
            continue
    return "none"


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_fence_may_open_after_words_and_close_at_the_end_of_a_line_of_code(opening):
    mark = "~~~" if "~" in opening else "```"
    for closing, end in itertools.product(CLOSINGS, ["", "\n"]):
        answer = f"Sure, here is what it does.\n\n{opening}\n{SOLUTION}{end}{mark}{closing}"
        assert chosen(answer) == ast.unparse(ast.parse(SOLUTION)), answer


def test_code_within_a_line_is_found_if_there_is_no_other():
    code = "def f(x, y=1): return x * y"
    for answer in (f"```{code}```", f"So: ```python {code}```", f"The answer is `{code}`.", f"Use ``{code}`` as `g`."):
        assert chosen(answer) == ast.unparse(ast.parse(code)), answer
    assert chosen(f"Not `{code}` but\n```python\n{SOLUTION}\n```") == ast.unparse(ast.parse(SOLUTION))
    assert code_candidates("It is `def f(x):` as you said, with `f` = 3.", "f") == []


def test_a_whole_text_that_is_python_is_taken_whole():
    code = 'def f(x):\n    """So: ```python\n    def f(x):\n        return 0\n    ```\n    """\n    return 1\n'
    assert chosen(code) == ast.unparse(ast.parse(code))


@pytest.mark.parametrize("header", HEADERS)
def test_a_stub_quoted_after_the_solution_is_not_run(header):
    for body in BODIES:
        answer = f"```python\n{SOLUTION}\n```\nYour stub was:\n```python\n{header}{body}\n```\n"
        assert chosen(answer) == ast.unparse(ast.parse(SOLUTION)), answer


@pytest.mark.parametrize("code", WORK)
def test_code_that_does_something_is_no_stub(code):
    assert chosen(f"First:\n```python\n{SOLUTION}\n```\nBetter:\n```python\n{code}\n```") == ast.unparse(
        ast.parse(code)
    )


def fenced(code: str, mark: str = "```", info: str = "python") -> str:
    return f"{mark}{info}\n{code}\n{mark}\n"


def value(answer: str):
    """What f(1) of the text that is run returns: the first that is Python and lacks no name."""
    for text in code_candidates(answer, "f"):
        names: dict = {}
        try:
            exec(compile(text, "answer", "exec"), names)
        except (SyntaxError, NameError):
            continue
        return names["f"](1)
    return None


USES = {
    "def f(x):\n    return add(x, 1)": [
        "from operator import (\n    sub,  # minus\n    add,\n)", "from operator import \\\n    add",
        "from operator import *", "import math; from operator import add",
        "def add(a, b):\n    return a + b", "add = lambda a, b: a + b",
        "class add:\n    def __new__(cls, a, b): return a + b", "sub, add = None, lambda a, b: a + b",
    ],
    "def f(x):\n    return x + ONE['é']": [
        "ONE: dict = {\n    'é': 1,\n}", "(ONE, TWO) = {'é': 1}, 2", "TWO = ONE = {'é': 1}",
    ],
    "def f(größe):\n    return größe + π": ["π = 1", "e, π = 0, 1", "from math import pi\nπ = pi // 3"],
}  # fmt: skip


@pytest.mark.parametrize("code", USES)
def test_blocks_before_and_after_the_solution_give_what_it_lacks(code):
    for other in USES[code]:
        for answer in (fenced(other) + "Then:\n" + fenced(code), fenced(code) + "with\n" + fenced(other)):
            assert value(answer) == 2, answer
    steps = fenced("import operator as o") + fenced("def plus(a, b):\n    return o.add(a, b)")
    assert value(steps + fenced("def f(x):\n    return plus(x, 1)")) == 2


@pytest.mark.parametrize("other", [
    "x = 5\nprint(f(x))", "result = f(x)", "total = price * quantity", "y: int = undefined(x)", "2",
    "from solution import f", "pip install x", "def f(x):\n    ...", "f(1) == 2", "x = input()\nf(x)",
])  # fmt: skip
def test_examples_and_formulas_are_not_run_with_the_solution(other):
    code = "def f(x):\n    total = price = quantity = y = result = x\n    return total + 1"
    assert value(fenced(other) + fenced(code)) == 2
    assert value(fenced(code) + fenced(other)) == 2


@pytest.mark.parametrize("around", [
    lambda code: fenced("Here:\n" + code, "````", "markdown"), lambda code: fenced("Here:\n" + code, "~~~", ""),
    lambda code: fenced("Here:\n" + code, "```", "md"), lambda code: fenced(fenced(code, "````", "md"), "`````", "md"),
    lambda code: "> " + code.replace("\n", "\n> "), lambda code: "So:\n\n>" + code.replace("\n", "\n>") + "\n\nDone.",
    lambda code: "> > " + code.replace("\n", "\n> > "), lambda code: "1. So:\n   > " + code.replace("\n", "\n   > "),
    lambda code: "````markdown\n" + code,
])  # fmt: skip
def test_fences_in_fences_and_in_quotes_are_found(around):
    assert value(around(fenced("def f(x):\n    return x + 1"))) == 2
    assert value(around(fenced("ONE = 1") + "and\n" + fenced("def f(x):\n    return x + ONE"))) == 2


@pytest.mark.parametrize("quote", ['"""', "'''"])
def test_a_fence_at_the_margin_of_a_docstring_is_a_part_of_it(quote):
    for inner in ("```\nf(1)\n```", "```python\nf(1)\n```", "```\nf(1)\n```\nand\n```\nf(2)\n```"):
        code = f"def f(x):\n    {quote}Add.\n\n{inner}\n    {quote}\n    return x + 1"
        for answer in (fenced(code), fenced(code) + "Use:\n" + fenced("f(3)"), fenced(code)[:-4], code):
            assert value(answer) == 2, answer


def test_other_ways_to_define_it_are_found():
    for code in ("f, g = (lambda x: x + 1), None", "g, *f = 0, 1\ng = f = lambda x: x + 1",
                 "[g, f] = 0, lambda x: x + 1", "(f := lambda x: x + 1)", "for f in [lambda x: x + 1]: pass",
                 "globals()['f'] = lambda x: x + 1"):  # fmt: skip
        assert value(fenced(code)) == 2, code
    assert value(fenced("from operator import neg as f")) == -1
    assert value("<pre><code>def f(x):\n    return x + 1 if 0 &lt; x else 0\n</code></pre>") == 2
    assert value(">>> def f(x):\n...     return x + 1\n...\n>>> f(1)\n2\n") == 2
