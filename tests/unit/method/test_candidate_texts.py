"""What a record of candidates lacks for a critic is named."""

import pytest

from sweet_rl.method.candidate_texts import check_candidates, sampling_logprobs
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates


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
    check_candidates(TurnCandidates("p", "", ["a"]), hint=False)
    check_candidates(TurnCandidates("p", "", ["a"], task=Task("d", "g")), hint=True)
