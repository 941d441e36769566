"""Turn credit in TRL 1.16: a `rollout_func` that plays ColBench, and a GRPOTrainer with an advantage for each turn.

    rollouts = TrlRollouts({"input_path": "train.jsonl"}, critic={"critic_type": "pmi", "model_id": "mini"})
    rows = Dataset.from_list(rollouts.rows())
    TurnCreditTrainer(MODEL, reward, GRPOConfig(...), train_dataset=rows, rollout_func=rollouts).train()

The plain GRPOTrainer takes the same rollouts; there every token has the advantage of its dialogue's reward.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import mean, pstdev
from typing import Any

from torch import Tensor
from trl import GRPOTrainer
from trl.trainer.utils import pad

from lab.trl_grpo.token_rollouts import ColBenchRollouts, DialogueFailed, TokenRollout
from sweet_rl.integrations.turn_advantages import at_last_tokens, turn_advantages
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

Replies = tuple[list[list[int]], list[list[float]] | None]


def reward(
    reward: list[float | None],
    turn_credit: Sequence[Sequence[float]] = (),
    log_metric: Callable[[str, float], None] | None = None,
    **_: Any,
) -> list[float | None]:
    """The reward function of the rollouts. TRL leaves out dialogues whose reward is None.

    Mean and standard deviation of the credit over all turns are logged as `turn_credit/mean` and `turn_credit/std`.
    """
    credit = [value for row in turn_credit for value in row]
    if credit and log_metric is not None:
        log_metric("turn_credit/mean", mean(credit))
        log_metric("turn_credit/std", pstdev(credit))
    return reward


class TrlRollouts(ColBenchRollouts):
    """The `rollout_func`: a dialogue for each prompt. The trainer's own backend samples a turn of all in one call.

    `max_completion_length` of the trainer limits each reply, `max_turns` of the benchmark the dialogue. A dialogue that
    failed, or cannot be graded, has no reward, and none of its tokens is trained.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._runner = asyncio.Runner()  # one event loop for all steps, because connections belong to theirs
        self._calls = itertools.count()

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by their ids."""
        return {task.id: task for task in self.benchmark.load_tasks()}

    def rows(self) -> list[dict[str, Any]]:
        """The training set: the prompt of each task, whose last message carries the task's id."""
        openings = [(key, self.benchmark.opening(task)) for key, task in self.tasks.items()]
        return [{"prompt": [*opening[:-1], {**opening[-1], "task": key}]} for key, opening in openings]

    def __call__(self, prompts: list[list[dict[str, Any]]], trainer: GRPOTrainer) -> dict[str, list | None]:
        """Play the dialogues. Raises DialogueFailed if all failed, and what the trainer's sampling raises."""
        chat = ChatFormat(
            getattr(trainer.processing_class, "tokenizer", trainer.processing_class), trainer.eos_token_ids
        )
        first = next(self._calls) * trainer.accelerator.num_processes + trainer.accelerator.process_index
        tasks = [self.tasks[prompt[-1]["task"]] for prompt in prompts]
        together = _Together(lambda ids: trainer._generate_single_turn(ids, None, {}, num_generations=1), len(tasks))

        async def play(number: int, task: Task) -> TokenRollout | DialogueFailed:
            async def generate(ids: list[int]) -> tuple[list[int], list[float] | None]:
                return await together.generate(number, ids)

            try:
                return await self.rollout(task, first * len(tasks) + number, chat, generate)
            except DialogueFailed as failed:
                return failed
            finally:
                together.leave()

        async def play_all() -> list[TokenRollout | DialogueFailed]:
            return await asyncio.gather(*(play(number, task) for number, task in enumerate(tasks)))

        found = self._runner.run(play_all())
        if together.error is not None:
            raise together.error
        played = [one for one in found if isinstance(one, TokenRollout)]
        if not played:
            raise next(one for one in found if isinstance(one, DialogueFailed))
        columns: dict[str, list] = {
            key: [] for key in ("prompt_ids", "completion_ids", "env_mask", "logprobs", "reward", "turn_credit")
        }
        row: tuple[Any, ...]
        for task, one in zip(tasks, found, strict=True):
            if isinstance(one, DialogueFailed):
                opening, _ = chat.encode(chat.prompt(self.benchmark.opening(task)))
                row = (opening, [chat.eos_ids[0]], [0], [0.0], None, [])
            else:
                credit = one.credit or []
                row = (
                    one.prompt_ids, one.response_ids, one.response_mask, one.logprobs, one.trajectory.reward, credit,
                )  # fmt: skip
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        known = all(one.logprobs is not None for one in played)
        return columns | ({} if known else {"logprobs": None})


class TurnCreditTrainer(GRPOTrainer):
    """GRPO whose advantages, [B, T], are those of `turn_advantages`: each turn's credit against the other dialogues.

    With `scale_rewards` they are divided by the standard deviation over all turns of the batch.
    """

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        mask = batch["completion_mask"] * batch["tool_mask"]
        if not any(row["turn_credit"] for row in inputs):
            raise UserError("no turn has a credit: give the rollouts a critic, such as {'critic_type': 'pmi', ...}.")
        scores = pad([at_last_tokens(row["turn_credit"], own) for row, own in zip(inputs, mask, strict=True)])
        generations = self.num_generations if self.model.training else self.num_generations_eval
        every, own = self._everywhere(scores), self._everywhere(mask)
        index = [row // generations for row in range(len(every))]
        advantages, _ = turn_advantages(every, own, index, scale=self.scale_rewards != "none")
        first = self.accelerator.process_index * len(mask)
        batch["advantages"] = advantages[first : first + len(mask), : mask.shape[1]]
        return batch

    def _everywhere(self, rows: Tensor) -> Tensor:
        """The rows of all processes."""
        return self.accelerator.gather(self.accelerator.pad_across_processes(rows, dim=1))


class _Together:
    """Samples a turn of all dialogues in progress in one call, when the last of them is ready for it.

    Args:
        sample: Function from prompts to the replies to them.
        live: Number of dialogues.

    Attributes:
        error: What `sample` raised.
    """

    def __init__(self, sample: Callable[[list[list[int]]], Replies], live: int) -> None:
        self.error: Exception | None = None
        self._sample, self._live = sample, live
        self._waiting: list[tuple[int, list[int], asyncio.Future]] = []

    async def generate(self, number: int, prompt: list[int]) -> tuple[list[int], list[float] | None]:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((number, prompt, future))
        self._sample_if_all_wait()
        return await future

    def leave(self) -> None:
        """Remove a dialogue that has ended."""
        self._live -= 1
        self._sample_if_all_wait()

    def _sample_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._live:
            return
        waiting, self._waiting = sorted(self._waiting, key=lambda one: one[0]), []
        try:
            ids, logprobs = self._sample([prompt for _, prompt, _ in waiting])
        except Exception as error:
            self.error = error
            for _, _, future in waiting:
                future.set_exception(error)
            return
        for row, (_, _, future) in enumerate(waiting):
            future.set_result((ids[row], None if logprobs is None else logprobs[row]))
