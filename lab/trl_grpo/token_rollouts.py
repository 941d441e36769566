"""ColBench for trainers that sample token ids: one dialogue as one sequence of tokens, with reward and turn credit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sweet_rl.integrations.benchmark import Benchmark
from sweet_rl.method.critics import CriticFlags
from sweet_rl.method.turn_credit import TurnScorer, of_finished_dialogues
from sweet_rl.models.base import Completion, Prompt, Sampling, prompt_ids
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.cli import build
from sweet_rl.runs.records import Task, Trajectory

Generate = Callable[[list[int]], Awaitable[tuple[list[int], list[float] | None]]]


class DialogueFailed(Exception):
    """A dialogue that has no reward, because a side failed or its task cannot be graded."""


class TokenPolicy:
    """A `ChatModel` whose replies the trainer samples; `logprobs` has the log-probs of each reply.

    Args:
        chat: Chat format of the policy.
        generate: Function from the ids of a prompt to the ids of a reply and their log-probs, None if not known.
    """

    def __init__(self, chat: ChatFormat, generate: Generate) -> None:
        self.chat = chat
        self.logprobs: list[list[float] | None] = []
        self._generate = generate

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        prompt = prompt_ids(self.chat, prompt)
        ids, logprobs = await self._generate(prompt)
        self.logprobs.append(logprobs)
        reason = "stop" if ids and ids[-1] in self.chat.eos_ids else "length"
        return [Completion.of_ids(self.chat, ids, logprobs, reason, len(prompt))]


@dataclass(frozen=True)
class TokenRollout:
    """A dialogue as one sequence.

    Attributes:
        prompt_ids: Tokens before the agent's first turn.
        response_ids: The others, [R].
        response_mask: [R], 1 for the tokens that the policy sampled, 0 for those of the human and the template.
        logprobs: [R], log-probs of sampling, 0 where the mask is 0; None if they are not known.
        trajectory: The dialogue with its reward, which is never None.
        credit: Credit of each turn of the agent; None without a critic.
    """

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    logprobs: list[float] | None
    trajectory: Trajectory
    credit: list[float] | None


class ColBenchRollouts:
    """Dialogues of a trainer's policy with the human, in the package's prompts.

    Args:
        benchmark: Fields of `Benchmark`: task_type, scripted_human, max_turns, ...
        human_model: Model that plays the human, if no script does.
        human_hostname: Its server.
        critic: Flags of score_turns.py: the critic whose credit the turns get; None for the reward alone.

    Raises:
        UserError: A setting that cannot be used, or a model that cannot be loaded.
    """

    def __init__(
        self,
        benchmark: dict[str, Any] | None = None,
        human_model: str | None = None,
        human_hostname: str | None = None,
        critic: dict[str, Any] | None = None,
    ) -> None:
        self.benchmark = Benchmark(**{"task_type": "mini", **(benchmark or {})})
        self._human_name = human_model or ""
        self._human = None
        if human_model is not None:
            self._human = load_model(human_model, ModelSettings(hostname=human_hostname), CallSettings())
        self._scorer = None
        if critic is not None:
            self._scorer = TurnScorer(of_finished_dialogues(build(CriticFlags, critic, "critic").chosen))

    async def rollout(self, task: Task, sample: int, chat: ChatFormat, generate: Generate) -> TokenRollout:
        """Play, grade and score one dialogue.

        Args:
            task: Task of the dialogue.
            sample: Number of this dialogue among those of its task, from which the human's seeds come.
            chat: Chat format of the policy.
            generate: See `TokenPolicy`.

        Raises:
            DialogueFailed: A side failed or the task cannot be graded.
        """
        policy = TokenPolicy(chat, generate)
        played = await self.benchmark.play(task, policy, self._human, self._human_name, sample)
        if played.ending == "failed":
            raise DialogueFailed("{side}: {kind}: {message}".format(**(played.failure or {})))
        graded = await self.benchmark.grade(played)
        if graded.reward is None:
            raise DialogueFailed(f"{graded.id} cannot be graded: {(graded.grade or {}).get('ungradable')}")
        credit = None if self._scorer is None else (await self._scorer.credit([graded]))[0]
        ids, own = chat.encode(played.parts or [], played.tokenizer)
        start = own.index(True) if True in own else len(own)
        known = [one for logprobs in policy.logprobs for one in logprobs or []]
        given, mask = iter(known), own[start:]
        logprobs = [next(given) if one else 0.0 for one in mask] if len(known) == sum(mask) else None
        return TokenRollout(ids[:start], ids[start:], [int(one) for one in mask], logprobs, graded, credit)
