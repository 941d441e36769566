"""Candidates per turn: which turns, which prompts, which tasks."""

import asyncio

import pytest

from sweet_rl.credit.candidates import sample_candidates, sample_tasks, turns_of
from sweet_rl.errors import UserError
from sweet_rl.models.base import Sampling
from sweet_rl.models.transformers_local import TransformersModel
from sweet_rl.records import Task, Trajectory
from tests.support.tiny_models import BOS, save_tiny_chat_model

TASK = Task("Write f", "def f(): return 'secret'")
RELEASED = f"{BOS}<|user|>Write f<|end|><|assistant|>"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return TransformersModel.from_pretrained(save_tiny_chat_model(tmp_path_factory.mktemp("tiny")), device="cpu")


def trajectory(**changes) -> Trajectory:
    history = [
        {"role": "user", "content": "Write f"},
        {"role": "assistant", "content": "How?", "input": RELEASED, "output": "How?"},
        {"role": "user", "content": "Well."},
        {"role": "assistant", "content": "I WANT TO ANSWER: x", "input": f"{RELEASED}How?<|end|>...", "output": "x"},
    ]
    return Trajectory(**{"task": TASK, "dialogue_history": history, **changes})


def test_released_rows_are_sampled_from_their_own_input_text(model):
    first, second = turns_of(trajectory(), model)
    assert (first.input, first.older_output, first.index) == (RELEASED, "How?", 0)
    assert (second.index, second.older_output) == (1, "x")
    own, _ = model.chat.encode(model.chat.prompt([{"role": "user", "content": "Write f"}]))
    assert model.chat.encode([{"text": first.input, "train": False}])[0] == own
    record = asyncio.run(sample_candidates(first, model, Sampling(n=3, max_tokens=5, seed=1)))
    assert record.input == RELEASED and len(record.additional_outputs) == 3


def test_our_own_trajectories_are_laid_out_anew(model):
    first, _ = turns_of(trajectory(parts=[{"text": "x", "train": True}]), model)
    assert first.input == model.chat.prompt([{"role": "user", "content": "Write f"}])


def test_failed_dialogues_have_no_turns(model):
    assert turns_of(trajectory(ending="failed"), model) == []


def test_candidates_depend_on_the_seed_and_the_turn_alone(model):
    first, second = turns_of(trajectory(), model)

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
