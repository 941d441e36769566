"""Acting with a critic: the candidate with the highest advantage is played, whatever is scored beside it."""

import asyncio
from functools import partial

import pytest

from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.dialogues.mini.human import MiniHuman
from sweet_rl.dialogues.play import DialogueSetup, play_all
from sweet_rl.method.best_of_n import BestCandidate
from sweet_rl.method.critics import CriticFlags
from sweet_rl.models.base import Sampling
from sweet_rl.models.load import load_model
from sweet_rl.runs.records import Task, Trajectory, read_records
from tests.support.command_line import check_call


@pytest.fixture(scope="module")
def played(mini_run, tmp_path_factory):
    """Dialogues of the packaged agent in which an untrained critic chose, and the same from one candidate."""
    place = tmp_path_factory.mktemp("acting")
    usual = {"agent_model": "mini", "env_model": "mini", "input_path": mini_run / "tasks" / "test.jsonl",
             "max_tokens": 40, "max_turns": 3}  # fmt: skip
    critic = {"critic": "mini", "critic_reference": "sampled"}
    for name, flags in {"one": {}, "chosen": {**critic, "candidates": 4}, "again": {**critic, "candidates": 4,
                        "concurrency": 1}, "n1": {**critic, "candidates": 1}}.items():  # fmt: skip
        script = "play_best_of_n.py" if flags else "simulate_interactions.py"
        check_call(script, **usual, **flags, output_path=place / f"{name}.jsonl")
    return place


@pytest.mark.slow
def test_each_turn_that_is_played_is_the_one_that_ranking_it_alone_puts_first(mini_run):
    critic = CriticFlags(model_id="mini", reference="sampled").chosen.load()
    best = BestCandidate(critic)
    made = []

    async def choose(task, messages, prompt, completions, tokenizer):
        place = await best(task, messages, prompt, completions, tokenizer)
        made.append((best._turn(task, messages, prompt, completions, tokenizer), completions[place].text))
        return place

    async def work():
        agent = load_model("mini")
        begin = partial(AnswerEnvironment, agent_prompt="{problem_description}", max_turns=3)
        acting = DialogueSetup(agent, MiniHuman(), begin, Sampling(max_tokens=40, n=4), choose)
        jobs = [(task, 0) for task in read_records(mini_run / "tasks" / "test.jsonl", Task)]
        rows = [row async for row in play_all(jobs, acting, 3)]
        await agent.close()
        return rows, [(await critic.scores([record]))[0] for record, _ in made]

    rows, scores = asyncio.run(work())
    for (record, text), own in zip(made, scores, strict=True):
        best_score = max(own)
        assert own[record.additional_outputs.index(text)] == pytest.approx(best_score, abs=1e-5)
    told = [m["content"] for row in rows for m in row.dialogue_history if m["role"] == "assistant"]
    assert sorted(told) == sorted(text for _, text in made)
    assert sum(text != record.additional_outputs[0] for record, text in made) > 0  # it does choose
    for row in rows:
        assert row.usage["agent"]["completion_tokens"] > sum(
            len(m["token_ids"]) for m in row.dialogue_history if m["role"] == "assistant"
        )  # all candidates are paid for


@pytest.mark.slow
def test_one_candidate_is_the_agent_itself_and_concurrency_changes_nothing(played):
    def dialogues(name):
        return {row.id: row.dialogue_history for row in read_records(played / f"{name}.jsonl", Trajectory)}

    assert dialogues("n1") == dialogues("one")
    assert dialogues("again") == dialogues("chosen")
