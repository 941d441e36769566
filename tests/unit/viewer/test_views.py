"""Which candidate a pair's text is, and the title of a task."""

from sweet_rl.viewer.views import TITLE, _is_candidate, title_of


def test_a_title_is_the_first_line_and_is_cut_between_two_words():
    assert title_of("I need the price of renting a tool.\ndef tool_rental(days, regular)") == (
        "I need the price of renting a tool."
    )
    assert title_of("\n\n Hello, \n please write  a function:\ndef f(a, b)") == "Hello, please write a function:"
    long = title_of("word (with, a bracket) " * 20)
    assert long.endswith(" word (with, a…") and len(long) <= TITLE
    assert title_of("x" * 1000) == "x" * TITLE + "…" and title_of("") == ""


def test_a_pair_s_text_is_its_candidate_with_or_without_a_marker_and_no_other():
    assert _is_candidate("Why?", "Why?") and _is_candidate("Why?<|eot_id|>", "Why?") and _is_candidate("[x]", "[x]")
    assert not _is_candidate("<|eot_id|>", "Why?") and not _is_candidate("Why? Really?", "Why?")
