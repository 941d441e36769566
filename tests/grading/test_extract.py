"""Code in answers: fences and prose."""

import pytest

from sweet_rl.grading.extract import call_prelude, code_candidates, function_name, imported_names

CODE = "def f(x):\n    return x + 1\n"

ANSWERS = {
    "bare": CODE,
    "fenced": f"```python\n{CODE}```",
    "prose around": f"Sure! Here it is:\n\n```python\n{CODE}```\nThis adds one.",
    "the last of two": f"```python\ndef f(x):\n    return 0\n```\nNo:\n```\n{CODE}```\nUse: \n```python\nf(3)\n```",
    "never closed": f"Here:\n```python\n{CODE}",
    "prose without fences": f"Here is the code:\n\n{CODE}\nThis function adds one to x.",
    "a note after it": f"{CODE}\nNote: f (as asked) adds one.",
    "marker": f"I WANT TO ANSWER: {CODE}",
    "tildes": f"~~~\n{CODE}~~~",
    "indented fence": "1. do\n   ```python\n   def f(x):\n       return x + 1\n   ```\n",
    "windows line ends": f"```python\n{CODE}```".replace("\n", "\r\n"),
}


def first_python(candidates):
    for text in candidates:
        try:
            compile(text, "answer", "exec")
            return text
        except SyntaxError:
            continue
    return None


@pytest.mark.parametrize("name", ANSWERS)
def test_code_is_found(name):
    code = first_python(code_candidates(ANSWERS[name], "f"))
    names = {}
    exec(code, names)
    assert names["f"](1) == 2


@pytest.mark.parametrize("answer", ["", "I do not know.", "```python\ndef g(x): pass\n```", "f(x) adds one"])
def test_answers_without_the_function_have_no_code(answer):
    assert code_candidates(answer, "f") == []


def test_a_closed_block_stands_before_an_open_one():
    answer = f"```\n{CODE}```\n```\ndef f(x):\n    retu"
    assert code_candidates(answer, "f")[0] == CODE


def test_helpers_and_imports_stay():
    code = "import math\n\ndef helper(x):\n    return math.floor(x)\n\n@staticmethod\ndef f(x):\n    return helper(x)\n"
    assert first_python(code_candidates(f"Text.\n{code}\nIt works well.", "f")).strip() == code.strip()


def test_a_bare_answer_is_kept_whole():
    code = "seen = []\n\ndef f(x):\n    return x\n\nf.calls = 0\n"
    assert code_candidates(code, "f")[0] == code


def test_the_called_function_is_known_from_reference_and_tests():
    reference = "def helper(x):\n    return x\n\ndef f(x):\n    return helper(x)\n"
    assert function_name(reference, {"test1": "f(1)"}) == "f"
    assert function_name(reference, {"test1": "sorted(f([1]))"}) == "f"
    assert function_name("f = lambda x: x", {"test1": "f(1)"}) == ""


def test_imported_names():
    assert imported_names("import os, math as m\nfrom a.b import c\n  import numpy as np") == {
        "os",
        "math",
        "a.b",
        "numpy",
    }


def test_a_prelude_has_only_what_calls_name():
    reference = "import math\nfrom datetime import datetime\n\ndef f(x):\n    return x"
    assert call_prelude(reference, {"t": "f(datetime(2020, 1, 1))"}) == "from datetime import datetime"
    assert call_prelude(reference, {"t": "f(1)"}) == ""
