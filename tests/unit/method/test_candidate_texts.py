"""The parts of candidates: what is trained, where the EOS stands; what a record lacks for a critic is named."""

import pytest

from sweet_rl.method.candidate_texts import (
    check_candidates,
    completion_part,
    dialogue_of,
    prompt_parts,
    sampling_logprobs,
)
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates

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


def test_missing_log_probs_candidates_and_tasks_are_named():
    assert sampling_logprobs(TurnCandidates("p", "", ["a", "b"], [[-1.0], [-2.0, -3.0]])) == [[-1.0], [-2.0, -3.0]]
    assert sampling_logprobs(TurnCandidates("p", "", ["a"], [-1.5])) == [-1.5]
    released = TurnCandidates("p", "", ["a"], [-1.5], extra={"additional_reference_logprobs_sum": [-6]})
    assert sampling_logprobs(released) == [-1.5] and sampling_logprobs(released, "none") == [[-6.0]]
    for values in (None, [[-1.0], []]):
        with pytest.raises(UserError, match="'r'.*--reference_model_id"):
            sampling_logprobs(TurnCandidates("p", "", ["a", "b"], values, id="r"))
    with pytest.raises(UserError, match="'r'.*empty"):
        check_candidates(TurnCandidates("p", "", [], id="r"), hint=False)
    with pytest.raises(UserError, match="'r'.*--no_prompt"):
        check_candidates(TurnCandidates("p", "", ["a"], id="r"), hint=True)
    with pytest.raises(UserError, match="'r': no 'dialogue'"):
        dialogue_of(TurnCandidates("p", "", ["a"], id="r"))
    check_candidates(TurnCandidates("p", "", ["a"]), hint=False)
    check_candidates(TurnCandidates("p", "", ["a"], task=Task("d", "g")), hint=True)
