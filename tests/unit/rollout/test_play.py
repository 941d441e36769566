"""Many dialogues at once, between a real tiny model and a human behind a real server."""

import asyncio
import threading
from functools import partial

import pytest

from sweet_rl.chat import parts_text
from sweet_rl.environments import AnswerEnvironment
from sweet_rl.errors import UserError
from sweet_rl.humans import HumanReply, LLMHuman
from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.models.retries import RetryPolicy
from sweet_rl.models.transformers_local import TransformersModel
from sweet_rl.records import Task, Trajectory
from sweet_rl.rollout.collect import summarise
from sweet_rl.rollout.play import Collaboration, as_they_finish, play_all
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.tiny_models import BOS, EOS, save_tiny_chat_model

TASKS = [
    Task(f"Write function number {n}: def f{n}(x)", f"def f{n}(x):\n    return x * {n} + (x - {n})\n") for n in range(6)
]
JOBS = [(task, sample) for task in TASKS for sample in range(2)]
SAMPLING = Sampling(max_tokens=25, seed=3)


class ModestHuman:
    """Knows nothing, after a different wait each time, so that dialogues overtake each other."""

    async def reply(self, task, dialogue, seed):
        await asyncio.sleep(seed % 7 / 500)
        return HumanReply(f"I don't know ({seed % 100}).", leaks=seed % 2, completion_tokens=4)


class BrokenHuman(ModestHuman):
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def reply(self, task, dialogue, seed):
        if "number 3" in task.problem_description:
            raise self.error
        return await super().reply(task, dialogue, seed)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"), initializer_range=0.2)


def collaboration(agent, human, max_turns=3) -> Collaboration:
    begin = partial(AnswerEnvironment, agent_prompt="{problem_description}", max_turns=max_turns)
    return Collaboration(agent, human, begin, SAMPLING)


def played(path, human, jobs=JOBS, concurrency=12, **settings) -> dict[str, Trajectory]:
    async def work():
        agent = TransformersModel.from_pretrained(path, device="cpu", **settings)
        try:
            return {t.id: t async for t in play_all(jobs, collaboration(agent, human), concurrency)}
        finally:
            await agent.close()

    return asyncio.run(work())


def test_every_dialogue_ends_by_the_rules_and_training_sees_the_sampled_ids(path):
    trajectories = played(path, ModestHuman())
    assert set(trajectories) == {f"{task.id}-{sample}" for task, sample in JOBS}
    chat = TransformersModel.from_pretrained(path, device="cpu").chat
    for trajectory in trajectories.values():
        assert trajectory.ending == "turn_limit" and trajectory.answer is None and trajectory.failure is None
        said = [row for row in trajectory.dialogue_history if row["role"] == "assistant"]
        assert len(said) == 3
        assert trajectory.tokenizer == chat.fingerprint
        ids, trained = chat.encode(trajectory.parts, trajectory.tokenizer)
        sampled = [token for row in said for token in row["token_ids"]]
        assert [token for token, mark in zip(ids, trained, strict=True) if mark] == sampled
        for place, row in enumerate(trajectory.dialogue_history):
            if row["role"] == "assistant":
                prompt = chat.prompt(trajectory.dialogue_history[:place])
                assert row["input"] == parts_text(prompt)
                seen = chat.encode(prompt, chat.fingerprint)[0]
                assert ids[: len(seen) + len(row["token_ids"])] == seen + row["token_ids"]
        assert said[0]["input"] == f"{BOS}<|user|>{trajectory.task.problem_description}{EOS}<|assistant|>"
        again = Trajectory.from_dict(trajectory.to_dict())
        assert again == trajectory


def test_dialogues_do_not_depend_on_concurrency_or_order(path):
    wide = played(path, ModestHuman())
    narrow = played(path, ModestHuman(), jobs=JOBS[::-1], concurrency=1, prefix_bytes=0)
    assert wide == narrow


def test_a_failing_simulator_fails_its_own_dialogues_only(path):
    for error, kind in ((ModelError("timeout", "too slow"), "timeout"), (RuntimeError("a surprise"), "RuntimeError")):
        trajectories = played(path, BrokenHuman(error))
        failed = [t for t in trajectories.values() if t.ending == "failed"]
        assert {t.task.id for t in failed} == {TASKS[3].id} and len(failed) == 2
        assert all(t.failure == {"kind": kind, "message": str(error), "side": "human"} for t in failed)
        assert all(t.answer is None and len(t.dialogue_history) == 2 for t in failed)
        assert len(trajectories) == len(JOBS)


def test_a_prompt_that_outgrows_the_context_is_the_agents_failure(tmp_path):
    path = save_tiny_chat_model(tmp_path, initializer_range=0.2, max_position_embeddings=90)
    trajectories = played(path, ModestHuman())
    assert {t.ending for t in trajectories.values()} == {"failed"}
    assert {(t.failure["side"], t.failure["kind"]) for t in trajectories.values()} == {("agent", "context")}
    assert all(t.parts for t in trajectories.values())


def test_a_refused_key_ends_the_run_with_a_message(path):
    with pytest.raises(UserError, match="human's server refuses the key"):
        played(path, BrokenHuman(ModelError("auth", "wrong key")))


def test_agent_and_human_on_a_server_that_fails_for_one_task():
    lock, asked = threading.Lock(), []

    def answer(body):
        text = body["messages"][-1]["content"]
        with lock:
            asked.append(body)
        if "number 3" in text:
            return refusal(400, "maximum context length exceeded")
        if "hidden_code" in text:
            return chat_reply("It is linear.")
        turns = sum(message["role"] == "assistant" for message in body["messages"])
        return chat_reply("What is it?" if not turns else "I WANT TO ANSWER:\ndef f(x): return x")

    async def work(url):
        model = OpenAIServer(MODEL, [url], retries=RetryPolicy(attempts=2, first_wait=0.01))
        human = LLMHuman(model, "hidden_code {problem_description} {ground_truth} {dialogue}")
        found = [t async for t in play_all(JOBS, collaboration(model, human), 8)]
        await model.close()
        return found

    with ApiServer(answer) as server:
        trajectories = asyncio.run(work(server.url))
    by_ending = {ending: [t for t in trajectories if t.ending == ending] for ending in ("answered", "failed")}
    assert len(by_ending["answered"]) == 10 and len(by_ending["failed"]) == 2
    for trajectory in by_ending["answered"]:
        assert trajectory.answer == "def f(x): return x" and trajectory.parts is None
        assert [row["role"] for row in trajectory.dialogue_history] == ["user", "assistant", "user", "assistant"]
    summary = summarise((t.to_dict() for t in trajectories), seconds=2.0)
    assert summary["dialogues"] == 12 and summary["turns"] == 20
    assert summary["endings"] == {"answered": 10, "failed": 2}
    assert summary["failures"] == {"agent: context": 2}
    assert summary["tokens"]["agent_completion_tokens"] == 100
    assert summary["tokens"]["human_completion_tokens"] == 50
    assert summary["agent_tokens_per_second"] == 50.0


def test_leaks_are_counted():
    rows = [{"dialogue_history": [], "ending": "answered", "leaks": n} for n in (0, 2, 3)]
    summary = summarise(rows)
    assert summary["simulator_leaks"] == 5 and summary["dialogues_with_leaks"] == 2


def test_no_more_jobs_run_at_once_than_allowed_and_none_waits_for_the_slowest():
    running, most, finished = 0, 0, []

    async def work(job):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.3 if job == 0 else 0.01)
        running -= 1
        return job

    async def collect():
        async for job in as_they_finish(range(20), work, 4):
            finished.append(job)

    asyncio.run(collect())
    assert most == 4 and sorted(finished) == list(range(20)) and finished[-1] == 0
