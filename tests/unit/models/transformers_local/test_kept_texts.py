"""Which texts are kept, and which of them a prompt continues."""

from sweet_rl.models.transformers_local.kept_texts import KeptTexts

END = 2


def test_the_longest_text_that_a_prompt_continues_is_taken_once():
    kept = KeptTexts(100, {END})
    kept.keep([5, 6], ["short"])
    kept.keep([5, 6, END, 7], ["long"])
    prompt = [5, 6, END, 7, END, 8]
    assert kept.take(prompt) == (4, ["long"])
    assert kept.take(prompt) == (2, ["short"])
    assert kept.take(prompt) == (0, [])
    assert kept.tokens == 0


def test_a_text_is_found_only_where_a_reply_ends():
    kept = KeptTexts(100, {END})
    kept.keep([5, 6], ["text"])
    assert kept.take([5, 6, 7]) == kept.take([5, 7, END]) == kept.take([5, 6]) == (0, [])
    assert kept.take([5, 6, END]) == (2, ["text"])


def test_the_oldest_texts_make_room_and_one_beyond_all_room_is_not_kept():
    kept = KeptTexts(4, {END})
    for first in (5, 6, 7):
        kept.keep([first, 9], [first])
    assert kept.tokens == 4
    assert kept.take([5, 9, END]) == (0, [])
    assert kept.take([7, 9, END]) == (2, [7])
    kept.keep([1] * 5, ["large"])
    assert kept.tokens == 0
