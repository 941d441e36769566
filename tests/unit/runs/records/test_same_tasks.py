"""One task id is one task, and stored log-probs are one for each token: in files, pairs and scores."""

from dataclasses import replace

import pytest

from sweet_rl.dialogues.sibling_pairs import sibling_pairs
from sweet_rl.method.candidate_texts import sampling_logprobs
from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.records import Task, Trajectory, TurnCandidates, read_records
from tests.support.command_line import write_rows

TASK = Task("Add two numbers.", "def f(a, b): return a + b", {"t1": "f(1, 2)", "t2": "f(3, 4)"}, id="same")
OTHERS = {
    "another description": replace(TASK, problem_description="Subtract."),
    "another solution": replace(TASK, ground_truth="def f(a, b): return b - a"),
    "another test": replace(TASK, test_cases={"t1": "f(1, 2)", "t2": "f(3, 5)"}),
    "a test less": replace(TASK, test_cases={"t1": "f(1, 2)"}),
}
SAID = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]


def dialogue(task: Task, number: int, reward: float) -> Trajectory:
    return Trajectory(task, SAID, "x", reward, id=f"d{number}", ending="answered")


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_two_tasks_with_one_id_are_refused(other, tmp_path):
    mixed = [dialogue(TASK, 0, 1.0), dialogue(TASK, 1, 0.0), dialogue(other, 2, 0.0)]
    path = write_rows(tmp_path / "graded.jsonl", [one.to_dict() for one in mixed])
    with pytest.raises(RecordError, match="line 3: the task id 'same' stands for another task on line 1"):
        read_records(path, Trajectory)
    turns = [TurnCandidates("p", "a", ["b"], task=task, id=str(n)).to_dict() for n, task in enumerate([TASK, other])]
    with pytest.raises(RecordError, match="line 2: the task id 'same'"):
        read_records(write_rows(tmp_path / "candidates.jsonl", turns), TurnCandidates)


def test_the_same_task_in_another_order_of_its_tests_is_one_task(tmp_path):
    turned = replace(TASK, test_cases=dict(reversed(TASK.test_cases.items())), extra={"note": "seen"})
    rows = [dialogue(TASK, 0, 1.0), dialogue(turned, 1, 0.0)]
    read = read_records(write_rows(tmp_path / "graded.jsonl", [one.to_dict() for one in rows]), Trajectory)
    assert len(list(sibling_pairs(read))) == 1


CANDIDATES = TurnCandidates(
    "p", "a", ["b", "c"], [[-1.0, -2.0], [-3.0]], id="turn", additional_token_ids=[[5, 6], [7]], tokenizer="any"
)


@pytest.mark.parametrize("logprobs", [[[-1.0], [-3.0]], [[-1.0, -2.0], [-3.0, -3.0]], [[-1.0, -2.0], []]])
def test_log_probs_of_another_length_than_the_tokens_are_refused(logprobs, tmp_path):
    row = CANDIDATES.to_dict()
    assert TurnCandidates.from_dict(row) and sampling_logprobs(CANDIDATES) == [[-1.0, -2.0], [-3.0]]
    with pytest.raises(RecordError, match="line 4, candidate [01]: . log-probs for . token ids"):
        TurnCandidates.from_dict(row | {"additional_reference_logprobs": logprobs}, "line 4")
    with pytest.raises(UserError, match="'turn'"):
        sampling_logprobs(replace(CANDIDATES, additional_reference_logprobs=logprobs))


def test_a_message_with_a_log_prob_too_few_is_refused():
    said = [SAID[0], SAID[1] | {"token_ids": [1, 2, 3], "logprobs": [-1.0, -2.0]}]
    with pytest.raises(RecordError, match=r"line 9, dialogue_history\[1\]: 2 log-probs for 3 token ids"):
        Trajectory.from_dict(
            {"task": TASK.to_dict(), "dialogue_history": said, "answer": None, "reward": 1.0}, "line 9"
        )
