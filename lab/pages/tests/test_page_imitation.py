import random
from dataclasses import replace

from lab.mini_agents import pretraining
from lab.pages.make_page_agent import LESSONS
from lab.pages.page_imitation import (
    BAD,
    INFORMED,
    MAX_TURNS,
    apply_feedback,
    first_page,
    imitation_dialogue,
    next_page,
)
from lab.pages.page_tasks import draw_page
from lab.pages.pages import PARTS, SITES, fixed_texts, read_page
from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.method.privileged_information import hint_text


def drawn(count, seed):
    rng = random.Random(seed)
    return [draw_page(rng.choice(SITES), rng) for _ in range(count)]


def wrong_at_end(informed):
    wrong = []
    for number, reference in enumerate(drawn(80, seed=5)):
        last = imitation_dialogue(reference, informed, random.Random(number))[-1]["content"]
        page = read_page(last.removeprefix(f"{ANSWER_MARKER}\n"))
        wrong.append(sum(getattr(page, part) != getattr(reference, part) for part in PARTS))
    return sum(wrong) / len(wrong)


def test_dialogues_are_pages_and_what_the_designer_says_of_them():
    for number, reference in enumerate(drawn(40, seed=6)):
        messages = imitation_dialogue(reference, False, random.Random(number))
        assert [m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2)
        assert len(messages) <= 2 * MAX_TURNS
        for message in messages[1::2]:
            assert read_page(message["content"].removeprefix(f"{ANSWER_MARKER}\n")) is not None
        assert not any(ANSWER_MARKER in message["content"] for message in messages[:-1])


def test_the_informed_end_nearer_to_the_reference():
    assert INFORMED.listen > BAD.listen
    assert wrong_at_end(True) < 0.5 * wrong_at_end(False)


def test_what_the_client_mentions_is_on_the_first_page():
    rng = random.Random(7)
    for reference in drawn(50, seed=8):
        page = first_page(reference, ["image", "footer"], 0.0, rng)
        assert page.image != "none" and page.footer != "none"


def test_an_agent_that_listens_and_spoils_nothing_does_what_it_is_told():
    habits = replace(BAD, listen=1.0, half=0.0, spoil=0.0)
    (page,) = drawn(1, seed=9)
    words = "Please make the header black. Please leave out the picture across the whole page."
    assert next_page(page, words, habits, random.Random(0)) == apply_feedback(page, words)


def test_a_page_is_few_tokens_and_comes_back_whole():
    tokenizer = pretraining.make_tokenizer(LESSONS, num_dialogues=60)
    for page in drawn(40, seed=10):
        ids = tokenizer.encode(page.html(), add_special_tokens=False)
        assert len(ids) < 60
        assert tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == page.html()
    assert all(len(tokenizer.encode(text, add_special_tokens=False)) == 1 for text in fixed_texts())
    hint = hint_text(drawn(1, seed=11)[0].html())
    assert tokenizer.decode(tokenizer.encode(hint, add_special_tokens=False)) == hint
