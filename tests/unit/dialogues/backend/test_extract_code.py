"""Code in answers: fences and prose."""

import pytest

from sweet_rl.dialogues.backend.extract_code import (
    _fenced_blocks,
    code_candidates,
    function_name,
    imported_names,
)

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
    "a fence in a docstring": '```python\ndef f(x):\n    """Adds one.\n\n    ```\n    f(1)\n    ```\n    """\n'
    "    return x + 1\n```",
    "imports in a block before": "```python\nimport math\n```\nand\n```python\ndef f(x):\n"
    "    return math.floor(x) + 1\n```",
    "a helper in a block before": f"```\ndef one():\n    return 1\n```\n```\n{CODE.replace(' 1', ' one()')}```",
    "a signature after it": f"```python\n{CODE}```\nIts signature:\n```python\ndef f(x: int) -> int: ...\n```",
    "a stub after it": f'```python\n{CODE}```\n```python\ndef f(x):\n    """Adds."""\n    pass\n```',
    "a class with a method of its name after it": f"```python\n{CODE}```\n```\nclass T:\n    def f(self): pass\n```",
    "a stub and its use after it": f"```python\n{CODE}```\n```python\ndef f(x):\n    ...\nprint(f(1), f(2))\n```",
    "an alias after it": f"```python\n{CODE}```\n```python\nf = f\n```",
    "a fence after words": f"The answer is: ```python\n{CODE}```",
    "a bold marker": f"**I WANT TO ANSWER:** ```python\n{CODE}```",
    "a stray fence after it": f"{CODE}```",
    "never closed, and prose": f"```python\n{CODE}\nThis adds one to x.",
    **{
        f"{end} at the end of {where}": text + end
        for end in (
            "<|endoftext|>",
            "<|im_end|>\n",
            "</s>",
            "<｜end▁of▁sentence｜>",
            "<end_of_turn>",
            "<|eot_id|></s> ",
        )
        for where, text in (("a bare answer", CODE.rstrip()), ("an open fence", f"```python\n{CODE.rstrip()}"))
    },
    "no-break spaces": "```python\ndef f(x):\n\u00a0\u00a0\u00a0\u00a0return x\u00a0+ 1\n```",
    "a character without width": "```python\ndef f(x):\n    return\u200b x + 1\n```",
    "an ideographic space": CODE.replace("return ", "return\u3000"),
    "closed on its last line": f"```python\n{CODE.rstrip()}```",
    "closed with words": f"```python\n{CODE}``` This adds one.",
    "a language's name": f"python\n{CODE}",
    "words alone": f"Answer\n\n{CODE}\nDone",
    "constants after prose": "Here you go.\n\nONE = 1\n\ndef f(x):\n    return x + ONE\n",
    "a table after prose": "Here you go.\n\nD = {\n    1: 1,\n}\n\ndef f(x):\n    return x + D[1]\n",
    "prose like an import": f"import the following code:\n\n{CODE}",
    "a marker after it": f"```python\n{CODE}```\nI WANT TO ANSWER: the code above",
    "a mark of byte order": f"\ufeff{CODE}",
    "old line ends": CODE.replace("\n", "\r"),
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


def test_typographic_spaces_and_markers_stay_where_they_are_part_of_the_code():
    spaced = 'def f(x):\n    return "1\u00a0000" + "<|im_end|>"\n'
    assert first_python(code_candidates(spaced, "f")) == spaced
    assert first_python(code_candidates(f"```\n{spaced}```<|im_end|>", "f")) == spaced


def test_of_two_markers_the_last_counts():
    """An answer that quotes the marker, or answers twice, is judged by what it says last."""
    first = "I WANT TO ANSWER:\ndef f(x):\n    return 0\n"
    assert code_candidates(f"{first}I WANT TO ANSWER:\n{CODE}", "f")[0].strip() == CODE.strip()
    assert all("return 0" not in text for text in code_candidates(f"{first}I WANT TO ANSWER:\n{CODE}", "f"))
    assert "return 0" in code_candidates(f"{first}I WANT TO ANSWER: as above", "f")[0]
    fenced = f"I WANT TO ANSWER: ```python\n{CODE}```\nI WANT TO ANSWER: ```python\ndef f(x):\n    return 0\n```"
    assert "return 0" in code_candidates(fenced, "f")[0]
    assert code_candidates(f"Not at the margin of a line: I WANT TO ANSWER: no\n```\n{CODE}```", "f")[0] == CODE


def test_of_two_definitions_in_one_block_python_takes_the_last_and_other_functions_stay():
    answer = f"```python\ndef f(x):\n    return 0\n\ndef g(x):\n    return x\n\n{CODE}```"
    names = {}
    exec(first_python(code_candidates(answer, "f")), names)
    assert names["f"](1) == 2 and names["g"](1) == 1


def test_of_two_functions_the_block_of_the_called_one_is_taken():
    answer = f"```python\n{CODE}```\n```python\ndef g(x):\n    return f(x) * 2\n```"
    assert code_candidates(answer, "f")[0] == CODE
    names = {}
    exec(first_python(code_candidates(answer, "g")), names)
    assert names["g"](1) == 4


def test_of_two_functions_that_a_test_calls_the_reference_s_last_is_the_one():
    reference = "def f(x):\n    return x\n\ndef g(x):\n    return f(x)\n"
    assert function_name(reference, {"a": "g(f(1))"}) == "g"
    assert function_name(reference, {"a": "f(1)", "b": "g(1)"}) == "g"
    assert function_name(reference, {"a": "f(1)"}) == "f"


def test_a_closed_block_stands_before_an_open_one():
    answer = f"```\n{CODE}```\n```\ndef f(x):\n    retu"
    assert code_candidates(answer, "f")[0] == CODE


def test_helpers_and_imports_stay():
    code = "import math\n\ndef helper(x):\n    return math.floor(x)\n\n@staticmethod\ndef f(x):\n    return helper(x)\n"
    assert first_python(code_candidates(f"Text.\n{code}\nIt works well.", "f")).strip() == code.strip()


def test_a_bare_answer_is_kept_whole():
    code = "seen = []\n\ndef f(x):\n    return x\n\nf.calls = 0\n"
    assert code_candidates(code, "f")[0] == code
    ends_in_a_word = "def f(x):\n    if x:\n        return x\n    return"
    assert code_candidates(ends_in_a_word, "f")[0] == ends_in_a_word


def test_the_called_function_is_known_from_reference_and_tests():
    reference = "def helper(x):\n    return x\n\ndef f(x):\n    return helper(x)\n"
    assert function_name(reference, {"test1": "f(1)"}) == "f"
    assert function_name(reference, {"test1": "sorted(f([1]))"}) == "f"
    assert function_name("f = lambda x: x", {"test1": "f(1)"}) == ""


def test_what_a_text_in_a_test_seems_to_call_is_not_called():
    reference = "def f(x):\n    return helper(x)\n\ndef helper(x):\n    return x\n"
    tests = {"a": "f('helper(1)')", "b": ' f("it") == "helper(1)"', "c": "helper(1"}
    assert function_name(reference, tests) == "f"


def test_imported_names():
    assert imported_names("import os, math as m\nfrom a.b import c\n  import numpy as np") == {
        "os",
        "math",
        "a.b",
        "numpy",
    }


@pytest.mark.parametrize(
    "text",
    [
        "import math; import numpy as np", "import math, \\\n    numpy as np", "def f(x): import numpy as np",
        "try: import numpy",
    ],
)  # fmt: skip
def test_imports_are_found_wherever_they_stand(text):
    assert "numpy" in imported_names(text)


@pytest.mark.parametrize(
    ("opening", "closing", "closes"),
    [("", "   ", True), ("", "    ", False), ("\t", " " * 7, True), ("\t", " " * 8, False), ("", "\t", False)],
)
def test_a_closing_fence_is_at_most_three_columns_further_right_and_a_tab_is_four(opening, closing, closes):
    text = f"{opening}```\n{opening}def f(x):\n{opening}    return 1\n{closing}```\nprose\n"
    blocks, rest = _fenced_blocks(text)
    assert (len(blocks), rest is None) == ((1, True) if closes else (0, False))


@pytest.mark.parametrize(("mark", "other"), [("```", "~~~"), ("~~~", "```"), ("````", "```")])
def test_a_fence_is_closed_by_one_of_its_own_kind_and_length(mark, other):
    assert _fenced_blocks(f"{mark}\na\n{other}\nb\n{mark}\nc\n") == ([f"a\n{other}\nb\n"], None)
