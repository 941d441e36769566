"""The parts of candidates: what is trained, and where the EOS stands."""

from sweet_rl.method.candidate_parts import completion_part, prompt_parts
from sweet_rl.runs.records import TurnCandidates

PARTS = [
    {"text": "<s>", "train": False, "bos": True},
    {"text": "earlier<e>", "train": True, "token_ids": [5]},
    {"text": "asked", "train": False},
]


def test_nothing_of_a_prompt_is_trained_and_the_agents_turns_in_it_are_marked():
    first, earlier, last = prompt_parts(TurnCandidates(PARTS, "", ["a"]))
    assert (first, last) == (PARTS[0], PARTS[2])
    assert earlier == {"text": "earlier<e>", "train": False, "token_ids": [5], "turn": True}
    assert PARTS[1]["train"] is True


def test_the_bos_of_a_released_prompt_is_a_part_of_its_own():
    record = TurnCandidates("<s>task", "", ["a"])
    bos = {"text": "<s>", "train": False, "bos": True}
    assert prompt_parts(record, "<s>") == [bos, {"text": "task", "train": False}]
    assert prompt_parts(record, "<t>") == prompt_parts(record) == [{"text": "<s>task", "train": False}]


def test_the_eos_ends_a_candidate_once_and_only_if_it_was_sampled():
    reasons = ["stop", "length", "stop"]
    record = TurnCandidates("p", "", ["a", "b", "c<e>"], additional_finish_reasons=reasons)
    assert [completion_part(record, i, "<e>")["text"] for i in range(3)] == ["a<e>", "b", "c<e>"]
    released = TurnCandidates("p", "", ["a"], additional_token_ids=[[1, 2]])
    assert completion_part(released, 0, "<e>") == {"text": "a<e>", "train": True, "token_ids": [1, 2]}
