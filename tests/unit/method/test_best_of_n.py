"""Acting with a critic: which candidate is played, and how waiting turns are scored together."""

import asyncio

import pytest

from sweet_rl.method.best_of_n import BestCandidate
from sweet_rl.method.critics import CheckedCritic
from sweet_rl.models.base import Completion, ModelError
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

TASK = Task("Write it: def f(x)", "def f(x): return x + 1")
MESSAGES = [{"role": "user", "content": "Write it: def f(x)"}]


def completion(text: str) -> Completion:
    return Completion(text, None, None, "stop")


class Longest:
    """A critic that likes length, and notes how many turns it is given at a time."""

    eos_text, calls_at_once, turns_per_call = None, 1, 4

    def __init__(self, error: Exception | None = None) -> None:
        self.sizes, self.error = [], error

    async def scores(self, records):
        self.sizes.append(len(records))
        await asyncio.sleep(0.01)
        if self.error:
            raise self.error
        return [[float(len(text)) for text in record.additional_outputs] for record in records]


class Looking(Longest):
    """Notes the turns that it is given."""

    def __init__(self, seen: list) -> None:
        super().__init__()
        self.seen = seen

    async def scores(self, records):
        self.seen.extend(records)
        return await super().scores(records)


def choose_all(critic, groups):
    async def work():
        choose = BestCandidate(CheckedCritic(critic))
        prompt = [{"text": "o", "train": False}]
        waiting = [choose(TASK, MESSAGES, prompt, [completion(text) for text in group], None) for group in groups]
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(work())


def test_the_best_is_chosen_the_first_of_equals_and_waiting_turns_are_scored_together():
    critic = Longest()
    groups = [["a", "ccc", "bb"], ["x"], ["bb", "cc"]] * 3
    assert choose_all(critic, groups) == [1, 0, 0] * 3
    assert len(critic.sizes) < 9 and max(critic.sizes) == 4


@pytest.mark.parametrize(
    "error, kind", [(RuntimeError("out of memory"), RuntimeError), (ModelError("timeout", "slow"), ModelError),
                    (UserError("no solution"), UserError)],
)  # fmt: skip
def test_a_critic_that_breaks_says_so_to_everyone_who_waits(error, kind):
    results = choose_all(Longest(error), [["a", "b"]] * 3)
    assert [type(result) for result in results] == [kind] * 3


def test_the_critic_sees_the_turns_number_and_what_was_sampled():
    seen = []

    async def work():
        best = BestCandidate(CheckedCritic(Looking(seen)))
        prompt = [{"text": "o", "train": False}]
        dialogue = [*MESSAGES, {"role": "assistant", "content": "How?"}, {"role": "user", "content": "So."}]
        known = [Completion("a", [1], [-0.5], "stop"), Completion("bb", [2, 3], [-1.0, -2.0], "length")]
        await best(TASK, MESSAGES, prompt, known, "print")
        await best(TASK, dialogue, prompt, [known[0], Completion("b", None, None, "stop")])

    asyncio.run(work())
    first, second = seen
    assert (first.turn, second.turn) == (0, 1) and first.id != second.id
    assert (first.tokenizer, first.additional_token_ids) == ("print", [[1], [2, 3]])
    assert first.additional_reference_logprobs == [[-0.5], [-1.0, -2.0]]
    assert first.additional_finish_reasons == ["stop", "length"]
    assert second.additional_token_ids is None and second.additional_reference_logprobs is None
