"""What is taken from an answer: forty forms of a program and forty of a page, each with the text that is expected."""

import time

import pytest

from sweet_rl.dialogues.backend.extract_code import code_candidates
from sweet_rl.dialogues.frontend.extract_page import answered_page, extract_page, without_pages

CODE = "def f(x):\n    return x + 1\n"
WRONG = "def f(x):\n    return 0\n"
DOCSTRING = 'def f(x):\n    """Add one.\n\n    ```\n    f(1)\n    ```\n    """\n    return x + 1\n'
HELPER = "def one():\n    return 1\n"
USES_HELPER = "def f(x):\n    return x + one()\n"


def fenced(text: str, mark: str = "```", info: str = "python") -> str:
    return f"{mark}{info}\n{text}{mark}\n"


PROGRAMS = {  # the answer, and the program in it; None: none
    "bare": (CODE, CODE),
    "bare with the marker": (f"I WANT TO ANSWER:\n{CODE}", CODE),
    "bare with a byte order mark": (f"\ufeff{CODE}", CODE),
    "bare with Windows line ends": (CODE.replace("\n", "\r\n"), CODE),
    "bare under the name of the language": (f"python\n{CODE}", CODE),
    "bare between single words": (f"Answer\n\n{CODE}\nDone", CODE),
    "bare under words": (f"Here is the code:\n\n{CODE}", CODE),
    "bare above words": (f"{CODE}\nNote: f (as asked) adds one.", CODE),
    "bare with a constant": (f"Here:\n\nONE = 1\n{CODE}", f"ONE = 1\n{CODE}"),
    "a fence": (fenced(CODE), CODE),
    "a fence between words": (f"Sure:\n\n{fenced(CODE)}It adds one.", CODE),
    "a fence without a name": (fenced(CODE, info=""), CODE),
    "a fence with words": (fenced(CODE, info='python title="f.py"'), CODE),
    "a fence of four backticks": (fenced(CODE, "````"), CODE),
    "a fence of tildes": (fenced(CODE, "~~~", "py"), CODE),
    "tildes with backticks in them": (fenced(f"# ```\n{CODE}", "~~~"), f"# ```\n{CODE}"),
    "a longer fence closes": (f"```\n{CODE}`````\nWords.", CODE),
    "a fence that is never closed": (f"Here:\n```python\n{CODE}", CODE),
    "one that is never closed, and words": (f"```python\n{CODE}\nThis adds one to x.", CODE),
    "an indented fence": ("1. do\n   ```python\n   def f(x):\n       return x + 1\n   ```\n", CODE),
    "a fence after words on its line": (f"**Answer:** ```python\n{CODE}```", CODE),
    "a fence closed on a line of code": (f"```python\n{CODE.rstrip()}```", CODE),
    "a fence closed with words": (f"```python\n{CODE}``` This adds one.", CODE),
    "a fence in a docstring": (fenced(DOCSTRING), DOCSTRING),
    "a fence in Markdown in a fence": (fenced(f"Here:\n{fenced(CODE)}", "````", "markdown"), CODE),
    "a quoted fence": ("> " + fenced(CODE).replace("\n", "\n> "), CODE),
    "the last of two fences": (f"{fenced(WRONG)}No:\n{fenced(CODE)}", CODE),
    "a use of it in a later fence": (f"{fenced(CODE)}Use:\n{fenced('print(f(3))' + chr(10))}", CODE),
    "another function in a later fence": (fenced(CODE) + fenced("def g(x):\n    return 0\n"), CODE),
    "a stub in a later fence": (fenced(CODE) + fenced("def f(x):\n    ...\n"), CODE),
    "a fence that the token limit cut after a whole one": (f"{fenced(CODE)}Or:\n```python\ndef f(x):\n    retu", CODE),
    "a helper in a fence before": (fenced(HELPER) + fenced(USES_HELPER), f"{HELPER}\n{USES_HELPER}"),
    "a helper in a fence after": (fenced(USES_HELPER) + fenced(HELPER), f"{HELPER}\n{USES_HELPER}"),
    "an import in a fence before": (fenced("import math\n") + fenced("def f(x):\n    return math.pi\n"),
                                    "import math\n\ndef f(x):\n    return math.pi\n"),
    "the marker twice": (f"I WANT TO ANSWER:\n{WRONG}I WANT TO ANSWER:\n{CODE}", CODE),
    "the marker after the code": (f"{fenced(CODE)}I WANT TO ANSWER: the code above", CODE),
    "special tokens of a server": (f"{fenced(CODE)}<|im_end|>", CODE),
    "spaces that are none": (fenced(CODE.replace("    ", "\xa0" * 4).replace(" +", "\u200b +")), CODE),
    "commands of a notebook": (fenced(f"import re\n%matplotlib inline\n!pip i x\n{CODE}"), f"import re\n{CODE}"),
    "no program": ("I do not know.", None),
    "another function alone": (fenced("def g(x):\n    return x\n"), None),
}  # fmt: skip


def program(answer: str) -> str | None:
    """The text that the sandbox runs: the first that is Python."""
    for text in code_candidates(answer, "f"):
        try:
            compile(text, "answer", "exec")
        except SyntaxError:
            continue
        return text
    return None


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_of_an_answer(name):
    answer, expected = PROGRAMS[name]
    found = program(answer)
    assert (found or "").strip() == (expected or "").strip()


BODY = "<body>\n<h1>A page</h1>\n</body>"
PAGE = f'<!DOCTYPE html>\n<html lang="en">\n{BODY}\n</html>'
OPEN = PAGE.removesuffix("\n</html>")
CUT = PAGE[: PAGE.index("A page")]
OTHER = PAGE.replace("A page", "Another")
PART = '<div class="p-8"><h1>A part</h1></div>'
COMMENT = PAGE.replace("<html", "<!-- for the client -->\n<html")
INNER = f"{OPEN}\n<iframe srcdoc='<html><p>inner</p></html>'></iframe>\n</html>"
SHOWN = PAGE.replace("</h1>", "</h1><pre>\n```html\n<p>shown</p>\n```\n</pre>")

PAGES = {
    "bare": (PAGE, PAGE),
    "bare with a byte order mark": (f"\ufeff{PAGE}", PAGE),
    "bare with Windows line ends": (PAGE.replace("\n", "\r\n"), PAGE),
    "bare under words": (f"Here it is:\n{PAGE}", PAGE),
    "bare after words on its line": (f"Here it is: {PAGE}", PAGE),
    "bare above words": (f"{PAGE}\nI hope you like it.", PAGE),
    "bare and cut off": (CUT, CUT),
    "bare without a doctype": (PAGE.partition("\n")[2], PAGE.partition("\n")[2]),
    "bare with a comment before the html": (COMMENT, COMMENT),
    "bare with a comment before the doctype": (f"<!-- mine -->\n{PAGE}", f"<!-- mine -->\n{PAGE}"),
    "bare with a page in a frame": (INNER, INNER),
    "bare with a fence in it": (SHOWN, SHOWN),
    "a body alone": (BODY, BODY),
    "a fence": (f"```html\n{PAGE}\n```", PAGE),
    "a fence without a name": (f"```\n{PAGE}\n```", PAGE),
    "a fence with words": (f"```html index.html\n{PAGE}\n```", PAGE),
    "a fence with another name": (f"```html5\n{PART}\n```", PART),
    "a fence with a file's name": (f"```html:index.html\n{PART}\n```", PART),
    "a fence of four backticks": (f"````html\n{PART}\n````\nDone.", PART),
    "a fence of tildes": (f"~~~html\n{PART}\n~~~\nDone.", PART),
    "a fence with Windows line ends": (f"Here:\r\n```html\r\n{PART}\r\n```\r\nDone.", PART),
    "a fence that is never closed": (f"Here:\n```html\n{PART}", PART),
    "a page that the token limit cut in its fence": (f"I use `<head>`:\n```html\n{CUT}", CUT),
    "a page without an end in a fence": (f"```html\n{OPEN}\n```\nI left out `</html>`, which is optional.", OPEN),
    "a comment in a fence": (f"```html\n{COMMENT}\n```", COMMENT),
    "a fence in Markdown in a fence": (f"````markdown\nHere:\n```html\n{PART}\n```\n````", PART),
    "words about the tags after it": (f"```html\n{PAGE}\n```\nI used `<html>`, `<head>` and `</html>`.", PAGE),
    "words about the tags before it": (f"I begin with `<html>` and end with `</html>`.\n```html\n{PAGE}\n```", PAGE),
    "a style sheet in a later fence": (f"```html\n{PAGE}\n```\n```css\nh1 {{color: red}}\n```", PAGE),
    "a part in a later fence": (f"```html\n{PAGE}\n```\nNew is:\n```html\n{PART}\n```", PAGE),
    "the last of two fences": (f"```html\n{OTHER}\n```\nBetter:\n```html\n{PAGE}\n```", PAGE),
    "an element alone": (PART, PART),
    "a comment and an element": (f"<!-- a card -->{PART}", f"<!-- a card -->{PART}"),
    "a picture alone": ('<img src="https://picsum.photos/id/48/300/200">',) * 2,
    "an article alone": ("<article>Text</article>",) * 2,
    "a list in a fence": ("```html\n<ul><li>one<li>two</ul>\n```", "<ul><li>one<li>two</ul>"),
    "a link in a fence": (f"```html\n<link href='a.css'>\n{PART}\n```", f"<link href='a.css'>\n{PART}"),
    "a drawing in a fence": ("```\n<svg width='9'><rect/></svg>\n```", "<svg width='9'><rect/></svg>"),
    "words alone": ("A blue header, then a table.", None),
    "a fence of another language": ("```css\nh1 {color: red}\n```", None),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_an_answer(name):
    answer, expected = PAGES[name]
    assert answered_page(answer) == expected
    if expected is not None:
        assert answered_page(expected) == expected  # what an environment has taken is taken again by the grader


def test_words_about_tags_and_questions_in_a_message_are_no_draft():
    for text in ("Shall I use <html> or <b>not</b>?", "<b>Question</b>: which colour?", "A `<body>` with a table?"):
        assert extract_page(text) is None
    assert extract_page(f"A draft:\n```html\n{PART}\n```\nIs it right?") == PART


def test_the_human_reads_a_mark_in_place_of_each_page():
    assert without_pages(f"See:\n```html\n{PAGE}\n```\nGood?", "(a page)") == "See:\n(a page)\nGood?"
    assert without_pages(f"See:\n{PAGE}\nGood?", "(a page)") == "See:\n(a page)\nGood?"
    assert without_pages(f"See:\n```html\n{CUT}", "(a page)") == "See:\n(a page)"
    assert without_pages("```css\na\n```", "(a page)") == "```css\na\n```"


def test_typographic_spaces_and_special_tokens_stay_where_they_are_part_of_the_code():
    spaced = 'def f(x):\n    return "1\u00a0000" + "<|im_end|>"\n'
    assert program(spaced) == spaced
    assert program(f"```\n{spaced}```<|im_end|>") == spaced


@pytest.mark.parametrize(
    "piece", ["> > ", "```\n", "f ", "f = ", "(f, ", "import (", "def f(", "for f ", "<html", "\n<body", "w=", " "]
)
def test_a_hostile_answer_is_read_in_seconds(piece):
    text = piece * (100_000 // len(piece))
    start = time.process_time()
    code_candidates(text, "f")
    answered_page(text)
    assert time.process_time() - start < 5
