"""Code of a reference is found under markup and escapes; honest words in the same markup are no leak."""

import html
import re
import unicodedata

import pytest

from benchmarks.leaks import honest
from sweet_rl.dialogues.leaks import gives_away
from tests.unit.dialogues.test_leak_disguises import REFERENCES, task

WORD = re.compile(r"[^\W\d_]\w*")
LAYOUTS = {
    "bold italics": lambda text: WORD.sub(r"***\g<0>***", text),
    "italics": lambda text: WORD.sub(r"_\g<0>_", text),
    "bold underscores": lambda text: WORD.sub(r"__\g<0>__", text),
    "struck out": lambda text: WORD.sub(r"~~\g<0>~~", text),
    "every sign in bold": lambda text: re.sub(r"[^\s*]+", r"**\g<0>**", text),
    "lines in bold": lambda text: "\n".join(f"**{line.strip()}**" for line in text.split("\n")),
    "coloured": lambda text: "<br/>".join(
        re.sub(r"\w+", r'<SPAN style="color: red">\g<0></SPAN>', line) for line in text.split("\n")
    ),
    "escaped three times": lambda text: html.escape(html.escape(html.escape(text))),
    "full width": lambda text: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text),
    "mathematical letters": lambda text: re.sub("[a-z]", lambda found: chr(0x1D41A + ord(found[0]) - 97), text),
}
CODE = [reference for reference in REFERENCES if '"""' not in reference]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reference", CODE)
def test_a_whole_reference_is_found(reference, layout):
    hidden = LAYOUTS[layout](reference)
    assert gives_away(hidden, reference, task(reference).problem_description), hidden


@pytest.mark.parametrize("layout", LAYOUTS)
def test_honest_words_and_code_that_was_shown_are_no_leak(layout):
    for reference in CODE:
        replies = [reply for _, reply in honest(task(reference))]
        assert [one for one in replies if gives_away(LAYOUTS[layout](one), reference, "")] == []
        assert not gives_away(LAYOUTS[layout](reference), reference, reference)
        assert not gives_away(reference, reference, LAYOUTS[layout](unicodedata.normalize("NFC", reference)))


def test_a_product_is_no_markup():
    reference = "def f(a, b, c):\n    return a *b* c + 2 **a** b - c\n"
    assert gives_away("return a *b* c + 2 **a** b - c", reference, "")
    assert gives_away("**return** a * b * c + 2 ** a ** b - c", reference, "")
    assert not gives_away("return a b c + 2 a b - c", reference, "")


def test_a_reference_to_a_character_of_thousands_of_digits_ends_no_dialogue():
    code = "def fee(hours, day):\n    return hours * 3 + day"
    endless = "&#" + "1" * 5000 + ";"
    assert gives_away(f"{endless} {code}", code, "")
    assert not gives_away(endless, code, "")
