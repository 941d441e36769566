"""An LLM as a judge: matches in both orders, a knockout, verdicts; by a model that is a function of its prompt."""

import asyncio
import re

import pytest

from sweet_rl.method.judge import JudgeCritic, judge_prompt, read_verdict
from sweet_rl.models.base import Completion
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates

TASK = Task("a fee", "def fee(x): return 2 * x")
DIALOGUE = [{"role": "user", "content": "I need a fee."}]


def record(texts, key="t-0"):
    prompt = "<|user|>I need a fee.<|end|>"
    return TurnCandidates(prompt, "old", list(texts), id=key, task=TASK, dialogue=DIALOGUE)


def shown(prompt: str) -> tuple[str, str]:
    return tuple(re.search(rf"<message_{n}>\n(.*?)\n</message_{n}>", prompt, re.DOTALL)[1] for n in (1, 2))


def verdict_for_the_longer(prompt: str) -> str:
    first, second = shown(prompt)
    return f"The first is better: hm.\n**Better: {1 if len(first) > len(second) else 2}**"


class Model:
    """Answers with a function of its prompt, and keeps the prompts and the samplings."""

    def __init__(self, answer):
        self.answer, self.prompts, self.samplings, self.calls = answer, [], [], []

    async def check(self):
        self.calls.append("check")

    async def complete(self, messages, sampling):
        ((message),) = messages
        self.prompts.append(message["content"])
        self.samplings.append(sampling)
        await asyncio.sleep(0)
        return [Completion(self.answer(message["content"]), None, None, "stop")]

    async def close(self):
        self.calls.append("close")


def judge(answer, texts, key="t-0", **settings):
    """(scores of the candidates, the model, the judge)."""

    async def work():
        critic = JudgeCritic(Model(answer), judge_prompt("judge.txt"), **settings)
        scores = (await critic.scores([record(texts, key)]))[0]
        await critic.scores([record(["only one"], key)])
        await critic.close()
        return scores, critic.model, critic

    return asyncio.run(work())


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16])
def test_a_consistent_judge_crowns_the_best_with_one_match_for_each_loser(n):
    texts = ["x" * (i + 1) for i in range(n)]
    scores, model, _ = judge(verdict_for_the_longer, texts)
    assert scores.index(max(scores)) == n - 1 and scores.count(max(scores)) == 1
    assert len(model.prompts) == 2 * (n - 1)  # each match in both orders
    assert max(scores) == (n - 1).bit_length()  # rounds


def test_a_judge_who_always_prefers_the_first_place_decides_nothing():
    wins = 0
    for seed in range(40):
        scores, *_ = judge(lambda _: "Better: 1", ["short", "a longer text"], seed=seed)
        wins += scores[0] > scores[1]
    assert 8 <= wins <= 32  # by lot: within 3.8 standard deviations of 20


def test_the_same_seed_gives_the_same_lots_whatever_the_order_of_the_candidates():
    texts = ["a", "b", "c", "d", "e"]
    one, *_ = judge(lambda _: "no idea", texts, seed=3)
    other, *_ = judge(lambda _: "no idea", texts[::-1], seed=3)
    assert other[::-1] == one


def test_equal_texts_enter_once_and_share_their_score():
    scores, model, _ = judge(verdict_for_the_longer, ["aa", "b", "aa"])
    assert scores == [1.0, 0.0, 1.0] and len(model.prompts) == 2


def test_the_solution_is_shown_unless_it_is_withheld():
    _, model, _ = judge(verdict_for_the_longer, ["a", "bb"])
    assert all(TASK.ground_truth in text and "Colleague: I need a fee." in text for text in model.prompts)
    assert {sampling.temperature for sampling in model.samplings} == {0.0}
    _, model, _ = judge(verdict_for_the_longer, ["a", "bb"], hint=False)
    assert all(TASK.ground_truth not in text for text in model.prompts)
    with pytest.raises(UserError, match="empty"):
        judge(verdict_for_the_longer, [])


@pytest.mark.parametrize(
    "reply, verdict",
    [("Better: 1", 1), ("better: 2.", 2), ("Better: 1\nOn reflection\nBetter: **2**", 2), ("Both are fine", None),
     ("Better: 3", None), ("", None), ("Better: 12", None)],
)  # fmt: skip
def test_the_last_readable_verdict_counts(reply, verdict):
    assert read_verdict(reply) == verdict
