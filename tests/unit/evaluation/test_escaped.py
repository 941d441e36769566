"""Names of runs, models and humans are text: in tables, notes and comments of every form."""

import pytest

from sweet_rl.evaluation.comparison import compare
from sweet_rl.evaluation.comparison_table import Table, as_latex, as_markdown, as_text
from sweet_rl.evaluation.escaped import in_latex, in_markdown, one_line
from tests.unit.evaluation.test_comparison import run_of

HOSTILE = "a\n\\input{x}%\x1b[2J\r<img src=x onerror=y>](http://z)|`b` [c]\u202e"


def test_a_name_ends_no_line_cell_comment_or_command():
    runs = {HOSTILE: [run_of(0, 1)], "[plain]": [run_of(1, 1)]}
    for make in (as_text, as_markdown, as_latex):
        text, plain = make(compare(runs)), make(compare({one_line(HOSTILE): [run_of(0, 1)], "[plain]": [run_of(1, 1)]}))
        assert len(text.splitlines()) == len(plain.splitlines()) and not {"\x1b", "\r", "\u202e"} & set(text)
    latex = as_latex(compare(runs))
    assert r"\textbackslash{}input\{x\}\%" in latex and "\n{[}plain] &" in latex
    markdown = as_markdown(compare(runs))
    assert r"&lt;img src=x onerror=y&gt;\](http\://z)\|\`b\` \[c\]" in markdown


@pytest.mark.parametrize(("text", "shown"), [
    ("SWEET_RL of log_ratio", "SWEET_RL of log_ratio"), ("p < 0.001", "p < 0.001"), ("a & b", "a & b"),
    ("__init__", r"\_\_init\_\_"), ("x_", r"x\_"), ("<b", "&lt;b"), ("&#60;", r"&amp;\#60;"),
])  # fmt: skip
def test_what_markdown_reads_as_text_stays_and_the_rest_is_escaped(text, shown):
    assert in_markdown(text) == shown


def test_latex_and_terminal_get_one_line():
    assert in_latex("50 % of $x_1^2$ & *\\\\[2em]") == (
        r"50 \% of \$x\_1\textasciicircum{}2\$ \& {*}\textbackslash{}\textbackslash{}{[}2em]"
    )
    assert one_line("a\x00\x1b]0;title\x07\u2028b") == "a ]0;title b"
    assert Table([["name", "n"], ["a\tb\nc", "1"]], 1).text().splitlines()[2] == "a b c  1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://evil.example/x", r"https\://evil.example/x"),
        ("FTP://evil.example", r"FTP\://evil.example"),
        ("www.evil.example", r"www\.evil.example"),
        ("openai/gpt: 4.1", "openai/gpt: 4.1"),
        ("a // b", "a // b"),
    ],
)
def test_an_address_is_no_link(text, shown):
    assert in_markdown(text) == shown
