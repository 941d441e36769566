"""Many dialogues, of a real tiny model and of agents whose messages are their seeds."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from sweet_rl.dialogues import AnswerEnvironment, HumanReply
from sweet_rl.dialogues.play import DialogueSetup, play, play_all, trajectory_id
from sweet_rl.dialogues.released import ReleasedEnvironment
from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.transformers_local import TransformersModel
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.tiny_models import BOS, EOS, save_tiny_chat_model

TASKS = [
    Task(f"Write function number {n}: def f{n}(x)", f"def f{n}(x):\n    return x * {n} + (x - {n})\n") for n in range(4)
]
JOBS = [(task, sample) for task in TASKS for sample in range(2)]
SAMPLING = Sampling(max_tokens=12, seed=3)


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


def begin(task, rules=AnswerEnvironment, max_turns=5):
    return rules(task, agent_prompt="{problem_description}", max_turns=max_turns)


def collaboration(agent, human=None) -> DialogueSetup:
    return DialogueSetup(agent, human or ModestHuman(), partial(begin, max_turns=3), SAMPLING)


def with_model(path: str, work):
    """The result of the coroutine function `work` with the agent that a folder holds."""

    async def run():
        agent = TransformersModel.from_pretrained(path, device="cpu")
        try:
            return await work(agent)
        finally:
            await agent.close()

    return asyncio.run(run())


def played(path, human, jobs=JOBS, concurrency=8) -> dict[str, Trajectory]:
    async def work(agent):
        return {t.id: t async for t in play_all(jobs, collaboration(agent, human), concurrency)}

    return with_model(path, work)


@pytest.fixture(scope="module")
def trajectories(tiny_agent) -> dict[str, Trajectory]:
    return played(tiny_agent, ModestHuman())


def test_every_dialogue_ends_by_the_rules_and_training_sees_the_sampled_ids(tiny_agent, trajectories):
    assert set(trajectories) == {f"{task.id}-{sample}" for task, sample in JOBS}
    chat = ChatFormat.from_pretrained(tiny_agent)
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


def test_dialogues_do_not_depend_on_concurrency_or_order(tiny_agent, trajectories):
    alone = played(tiny_agent, ModestHuman(), jobs=JOBS[::-2], concurrency=1)
    assert alone == {trajectory_id(*job): trajectories[trajectory_id(*job)] for job in JOBS[::-2]}


@pytest.mark.parametrize(
    ("error", "kind"), [(ModelError("timeout", "too slow"), "timeout"), (RuntimeError("a surprise"), "RuntimeError")]
)
def test_a_failing_simulator_fails_its_own_dialogues_only(tiny_agent, error, kind):
    trajectories = played(tiny_agent, BrokenHuman(error))
    failed = [t for t in trajectories.values() if t.ending == "failed"]
    assert {t.task.id for t in failed} == {TASKS[3].id} and len(failed) == 2
    assert all(t.failure == {"kind": kind, "message": str(error), "side": "human"} for t in failed)
    assert all(t.answer is None and len(t.dialogue_history) == 2 for t in failed)
    assert len(trajectories) == len(JOBS)


def test_a_mistake_in_the_rules_is_the_domains_and_not_the_agents(tiny_agent):
    class Odd(AnswerEnvironment):
        def step(self, completion, prompt_text=None):
            self.over = True

    async def work(agent):
        return await play(TASKS[0], 0, replace(collaboration(agent), begin=partial(begin, rules=Odd)))

    failure = with_model(tiny_agent, work).failure
    assert (failure["side"], failure["kind"]) == ("domain", "AttributeError") and "over" in failure["message"]


def test_a_refused_key_ends_the_run_with_a_message(tiny_agent):
    with pytest.raises(UserError, match="human: .*key"):
        played(tiny_agent, BrokenHuman(ModelError("auth", "wrong")))


def test_a_dialogue_that_outgrows_the_context_ends_with_a_turn_in_which_the_agent_says_nothing(tmp_path):
    path = save_tiny_chat_model(tmp_path, initializer_range=0.2, max_position_embeddings=80)
    trajectories = played(path, ModestHuman())
    assert {t.ending for t in trajectories.values()} == {"turn_limit"} and not any(
        t.failure for t in trajectories.values()
    )
    for trajectory in trajectories.values():
        last = trajectory.dialogue_history[-1]
        assert (last["role"], last["content"], last["finish_reason"]) == ("assistant", "", "context")
        assert sum(part["train"] for part in trajectory.parts) == trajectory.turns - 1


class SeedAgent:
    """An agent whose message is the seed that it was asked with, and which counts its calls' tokens."""

    chat = None

    def __init__(self, last_turn: int = 2) -> None:
        self.last_turn, self.samplings = last_turn, []

    async def complete(self, messages, sampling):
        self.samplings.append(sampling)
        turn = sum(message["role"] == "assistant" for message in messages)
        marker = "I WANT TO ANSWER:" if turn == self.last_turn else ""
        texts = (f"{marker}{sampling.seed + number}" for number in range(sampling.n))
        return [Completion(text, None, None, "stop", 10, 3) for text in texts]


class SeedHuman:
    async def reply(self, task, dialogue, seed):
        return HumanReply(f"human {seed}", leaks=1, prompt_tokens=4, completion_tokens=2)


def dialogue_of(
    task=TASKS[0], sample=0, seed=3, n=1, agent=None, human=None, rules=AnswerEnvironment, **fields
) -> Trajectory:
    sampling = Sampling(0.5, 7, seed=seed, n=n)
    setup = DialogueSetup(agent or SeedAgent(), human or SeedHuman(), partial(begin, rules=rules), sampling, **fields)
    return asyncio.run(play(task, sample, setup))


def texts(trajectory: Trajectory) -> list[str]:
    return [message["content"] for message in trajectory.dialogue_history[1:]]


def test_another_seed_another_sample_and_another_task_give_another_dialogue():
    given = [dialogue_of(), dialogue_of(seed=4), dialogue_of(sample=1), dialogue_of(TASKS[1])]
    for turn in range(5):
        assert len({texts(trajectory)[turn] for trajectory in given}) == 4


def test_tokens_and_leaks_are_counted_by_side():
    trajectory = dialogue_of()
    assert trajectory.usage == {
        "agent": {"prompt_tokens": 30, "completion_tokens": 9}, "human": {"prompt_tokens": 8, "completion_tokens": 4},
    }  # fmt: skip
    assert trajectory.leaks == 2


def test_the_candidate_that_is_chosen_is_played_and_the_tokens_of_all_are_counted():
    seen = []

    async def choose(task, messages, prompt, completions, tokenizer):
        seen.append((task, len(messages), prompt, len(completions), tokenizer))
        return 2

    agent = SeedAgent(last_turn=1)
    played = dialogue_of(agent=agent, n=4, choose=choose)
    assert seen == [(TASKS[0], 1, None, 4, None), (TASKS[0], 3, None, 4, None)]
    assert texts(played)[0] == str(agent.samplings[0].seed + 2)
    assert played.usage["agent"] == {"prompt_tokens": 20, "completion_tokens": 24}


def test_a_failure_shows_no_secret(monkeypatch, caplog):
    class Human:
        async def reply(self, task, dialogue, seed):
            return int(task.id)

    monkeypatch.setenv("HF_TOKEN", "sk-secret-of-mine")
    failure = dialogue_of(replace(TASKS[0], id="sk-secret-of-mine"), human=Human()).failure
    assert (failure["side"], failure["kind"]) == ("human", "ValueError")
    assert "'***'" in failure["message"] and "in reply" in caplog.text and "sk-secret" not in caplog.messages[0][20:]


def test_the_oracle_s_word_is_recorded_with_each_turn_and_shown_to_no_side():
    seen = []

    def label(task, messages, text):
        seen.append((task.id, len(messages), text))
        return None if len(messages) == 3 else f"word {len(messages)}"

    class Listener(SeedHuman):
        async def reply(self, task, dialogue, seed):
            assert not any("oracle" in message for message in dialogue)
            return await super().reply(task, dialogue, seed)

    trajectory = dialogue_of(label_turn=label, human=Listener())
    words = [message.get("oracle") for message in trajectory.dialogue_history if message["role"] == "assistant"]
    assert words == ["word 1", None, "word 5"]
    assert [place for _, place, _ in seen] == [1, 3, 5] and seen[0][2] == texts(trajectory)[0]
    assert texts(trajectory) == texts(dialogue_of())


def test_a_failed_released_dialogue_keeps_its_last_reply_as_it_was_sampled(tiny_agent):
    class Fails:
        chat = ChatFormat.from_pretrained(tiny_agent)

        replies = 0

        async def complete(self, prompt, sampling):
            self.replies += 1
            if self.replies > 1:
                raise ModelError("server", "gone")
            return [Completion("so OUTPUT: q", None, None, "stop")]

    setup = DialogueSetup(
        Fails(), SeedHuman(), partial(begin, rules=ReleasedEnvironment), SAMPLING, protocol="released"
    )
    trajectory = asyncio.run(play(TASKS[0], 0, setup))
    assert trajectory.ending == "failed" and trajectory.dialogue_history[-1]["role"] == "user"
    assert trajectory.parts[-1]["train"] and trajectory.parts[-1]["text"].startswith("so OUTPUT: q")
