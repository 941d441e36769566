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
