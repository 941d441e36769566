"""Candidates per turn: which turns, which prompts, which tasks."""

import asyncio

import pytest

from sweet_rl.method.candidates import (
    sample_candidates,
    sample_tasks,
    sample_turns,
    turns_of,
    with_candidates,
)
from sweet_rl.method.turn_credit import taken_turns
from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import TextMarkup, trajectory_parts
from sweet_rl.models.transformers_local import TransformersModel
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory, TurnCandidates, read_records
from sweet_rl.runs.run import open_run
from tests.support.command_line import write_rows
from tests.support.tiny_models import BOS

TASK = Task("Write f", "def f(): return 'secret'")
RELEASED = f"{BOS}<|user|>Write f<|end|><|assistant|>"


@pytest.fixture(scope="module")
def model(tiny_chat_model):
    return TransformersModel.from_pretrained(tiny_chat_model, device="cpu")


def trajectory(**changes) -> Trajectory:
    history = [
        {"role": "user", "content": "Write f"},
        {"role": "assistant", "content": "How?", "input": RELEASED, "output": "How?"},
        {"role": "user", "content": "Well."},
        {"role": "assistant", "content": "I WANT TO ANSWER: x", "input": f"{RELEASED}How?<|end|>...", "output": "x"},
    ]
    return Trajectory(**{"task": TASK, "dialogue_history": history, **changes})


def test_released_rows_are_sampled_from_their_own_input_text(model):
    first, second = turns_of(trajectory(), model.chat)
    assert (first.input, first.older_output, first.turn) == (RELEASED, "How?", 0)
    assert (second.turn, second.older_output) == (1, "x")
    own, _ = model.chat.encode(model.chat.prompt([{"role": "user", "content": "Write f"}]))
    assert model.chat.encode([{"text": first.input, "train": False}])[0] == own
    record = asyncio.run(sample_candidates(first, model, Sampling(n=3, max_tokens=5, seed=1)))
    assert record.input == RELEASED and len(record.additional_outputs) == 3


@pytest.mark.parametrize(("roles", "place"), [("au", 0), ("auaua", 0), ("uaaua", 2)])
def test_a_message_that_the_human_has_not_asked_for_is_named_with_its_file(model, tmp_path, roles, place):
    history = [{"role": {"a": "assistant", "u": "user"}[role], "content": "Hello?"} for role in roles]
    path = write_rows(tmp_path / "logs.jsonl", [Trajectory(TASK, history)])
    (logged,) = read_records(path, Trajectory)
    said = rf"logs.jsonl, line 1, .*dialogue_history\[{place}\]: a message of the agent without one of the human"
    with pytest.raises(UserError, match=said):
        turns_of(logged, model.chat)
    with pytest.raises(UserError, match=said):
        taken_turns(logged, model.chat)
    assert len(taken_turns(logged, None)) == roles.count("a")  # a critic without prompts
    if place == 0:
        with pytest.raises(UserError, match=said):
            trajectory_parts(logged, TextMarkup(model.chat))


def test_candidates_depend_on_the_seed_and_the_turn_alone(model):
    first, second = turns_of(trajectory(), model.chat)

    async def sample(*turns, seed):
        found = await asyncio.gather(
            *(sample_candidates(t, model, Sampling(n=2, max_tokens=8, seed=seed)) for t in turns)
        )
        return {record.id: record.additional_token_ids for record in found}

    together, alone = asyncio.run(sample(first, second, seed=0)), asyncio.run(sample(second, seed=0))
    assert together[second.id] == alone[second.id]
    assert asyncio.run(sample(second, seed=1)) != alone


def test_a_fraction_is_a_seeded_sample_of_whole_tasks():
    tasks = [Task(f"task {n}", "x") for n in range(20)]
    rows = [Trajectory(task, [], id=f"{task.id}-{i}") for i in range(3) for task in tasks]
    half = sample_tasks(rows, 0.5, seed=0)
    kept = {row.task.id for row in half}
    assert len(kept) == 10 and len(half) == 30
    assert kept != {task.id for task in tasks[:10]}
    assert [row.id for row in half] == [row.id for row in rows if row.task.id in kept]
    assert {row.task.id for row in sample_tasks(rows, 0.2, seed=0)} < kept
    assert {row.task.id for row in sample_tasks(rows, 0.5, seed=1)} != kept
    assert sample_tasks(rows, 1.0, seed=0) == rows
    assert len(sample_tasks(rows, 0.001, seed=0)) == 3
    with pytest.raises(UserError):
        sample_tasks(rows, 0.0, seed=0)


class Scripted:
    """A model that notes the seeds it is called with; it fails in the turns of `broken`."""

    chat = ChatFormat.from_pretrained("mini")

    def __init__(self, broken=(), kind="timeout"):
        self.broken, self.kind, self.seeds, self.closed = broken, kind, [], False

    async def check(self):
        pass

    async def complete(self, prompt, sampling):
        self.seeds.append(sampling.seed)
        if len(self.seeds) - 1 in self.broken:
            raise ModelError(self.kind, "no")
        known = Completion("a", [1, 2], [-0.5, -0.25], "stop")
        return [known, Completion("b", [3], [-1.0], "length")][: sampling.n]

    async def close(self):
        self.closed = True


def sampled_file(path, model, rows, seed=0, concurrency=1):
    sampling = Sampling(n=2, max_tokens=4, seed=seed)
    with open_run(path, {"seed": seed}, []) as output:
        return asyncio.run(sample_turns(output, rows, model, sampling, concurrency))


def test_every_turn_and_every_seed_of_a_run_draws_with_another_seed(tmp_path):
    rows = [trajectory(id="t-0"), trajectory(id="t-1"), trajectory(id="t-2", ending="failed")]
    one, other = Scripted(), Scripted()
    summary = sampled_file(tmp_path / "one.jsonl", one, rows)
    sampled_file(tmp_path / "other.jsonl", other, rows, seed=1)
    assert len({*one.seeds, *other.seeds}) == 8 and one.closed
    assert (summary["turns"], summary["candidates"]) == (4, 8)
    assert summary["finish_reasons"] == {"length": 4, "stop": 4}
    first, *_ = read_records(tmp_path / "one.jsonl", TurnCandidates)
    assert (first.id, first.turn, first.additional_outputs) == ("t-0-0", 0, ["a", "b"])
    assert first.additional_reference_logprobs == [[-0.5, -0.25], [-1.0]]
    assert first.dialogue == [{"role": "user", "content": "Write f"}]


def test_turns_that_failed_are_counted_and_the_next_run_samples_only_them(tmp_path):
    rows, model = [trajectory(id="t-0")], Scripted(broken=[1])
    with pytest.raises(UserError, match="1 of the turns failed .1 timeout"):
        sampled_file(tmp_path / "c.jsonl", model, rows)
    again = Scripted()
    assert sampled_file(tmp_path / "c.jsonl", again, rows)["turns"] == 2
    assert again.seeds == model.seeds[1:]


def test_fields_that_one_candidate_does_not_know_are_none_for_all():
    known, unknown = Completion("a", [1], [-0.5], "stop"), Completion("b", None, None, "length")
    turn = TurnCandidates("p", "", [])
    both = with_candidates(turn, [known, unknown])
    assert both.additional_reference_logprobs is both.additional_token_ids is None
    assert both.additional_finish_reasons == ["stop", "length"]
    assert with_candidates(turn, [known]).additional_token_ids == [[1]]
