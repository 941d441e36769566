from sweet_rl.method.privileged_information import hint_text, with_hint

SOLUTION = "def f(): return '<|eot|>'"


def test_the_hint_stands_after_the_bos_or_first_and_is_never_trained():
    bos, text = {"text": "<s>", "train": False, "bos": True}, {"text": "Hi", "train": True}
    hint = {"text": f"In light that the final answer is: {SOLUTION}.\n", "train": False, "plain": True}
    parts = [bos, text]
    assert with_hint(parts, SOLUTION) == [bos, hint, text] and parts == [bos, text]
    assert with_hint([text, text], SOLUTION) == [hint, text, text]
    assert with_hint([], SOLUTION) == [hint] == [{**hint, "text": hint_text(SOLUTION)}]
