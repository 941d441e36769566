"""Dialogues with both sides behind a real server."""

import asyncio
import threading
from functools import partial

from sweet_rl.domains import AnswerEnvironment, LLMHuman
from sweet_rl.models.base import Sampling
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.records import Task
from sweet_rl.rollout.collect import summarise_dialogues
from sweet_rl.rollout.play import DialogueSetup, play_all
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal

TASKS = [Task(f"Write function number {n}: def f{n}(x)", f"def f{n}(x):\n    return x * {n}\n") for n in range(6)]
JOBS = [(task, sample) for task in TASKS for sample in range(2)]


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
        model = OpenAIServer(MODEL, [url])
        begin = partial(AnswerEnvironment, agent_prompt="{problem_description}", max_turns=3)
        human = LLMHuman(model, "hidden_code {problem_description} {ground_truth} {dialogue}")
        found = [t async for t in play_all(JOBS, DialogueSetup(model, human, begin, Sampling(max_tokens=25)), 8)]
        await model.close()
        return found

    with ApiServer(answer) as server:
        trajectories = asyncio.run(work(server.url))
    by_ending = {ending: [t for t in trajectories if t.ending == ending] for ending in ("answered", "failed")}
    assert len(by_ending["answered"]) == 10 and len(by_ending["failed"]) == 2
    for trajectory in by_ending["answered"]:
        assert trajectory.answer == "def f(x): return x" and trajectory.parts is None
        assert [row["role"] for row in trajectory.dialogue_history] == ["user", "assistant", "user", "assistant"]
    summary = summarise_dialogues((t.to_dict() for t in trajectories), seconds=2.0)
    assert summary["dialogues"] == 12 and summary["turns"] == 20
    assert summary["endings"] == {"answered": 10, "failed": 2}
    assert summary["failures"] == {"agent: context": 2}
    assert summary["tokens"]["agent_completion_tokens"] == 100
    assert summary["tokens"]["human_completion_tokens"] == 50
    assert summary["agent_tokens_per_second"] == 50.0
