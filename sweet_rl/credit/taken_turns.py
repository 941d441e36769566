"""The credit of the turns that were taken: each turn of a finished dialogue as the only candidate of its turn."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from sweet_rl.credit.candidates import turns_of
from sweet_rl.credit.critics import WITH_REPLIES, Critic, CriticSettings, load_critic
from sweet_rl.errors import UserError
from sweet_rl.model_loading import check_loadable
from sweet_rl.models.base import ChatModel
from sweet_rl.progress import progress_bar
from sweet_rl.records import Trajectory, TurnCandidates, read_records
from sweet_rl.runs.run import Run, open_run


def taken_turns(trajectory: Trajectory, model: ChatModel | Critic) -> list[TurnCandidates]:
    """A record with one candidate for each turn of the agent, the answer included, and the human's reply to it.

    There is none if the dialogue failed.

    Args:
        trajectory: the dialogue.
        model: its `chat` lays out the prompts.
    """
    said = [*trajectory.dialogue_history, {"role": "user", "content": ""}]
    taken = [pair for pair in itertools.pairwise(said) if pair[0]["role"] == "assistant"]
    records = []
    for turn, (message, reply) in zip(turns_of(trajectory, model), taken, strict=False):  # none in a failed dialogue
        ids, logprobs = message.get("token_ids"), message.get("logprobs")
        known = ids is not None and turn.tokenizer is not None and turn.tokenizer == trajectory.tokenizer
        records.append(
            dataclasses.replace(
                turn,
                additional_outputs=[turn.older_output],
                additional_finish_reasons=[message.get("finish_reason") or "stop"],
                additional_token_ids=[ids] if known else None,
                additional_reference_logprobs=[logprobs] if logprobs else None,
                additional_replies=[reply["content"]],
            )
        )
    return records


def check_scores_turns(settings: CriticSettings) -> None:
    """Raise UserError for a judge, which only compares."""
    if settings.critic_type == "judge":
        raise UserError(
            "critic: a judge compares candidates of one turn, and a dialogue has one message per turn. Give "
            "another critic_type."
        )


class TurnCritic:
    """A critic of the turns of finished dialogues (equation 3 of the paper), each the only candidate of its turn.

    Raises:
        UserError: a critic that cannot be loaded, or a judge.
    """

    def __init__(self, settings: CriticSettings) -> None:
        check_scores_turns(settings)
        self.critic = load_critic(settings)
        self._calls = asyncio.Semaphore(self.critic.calls_at_once)

    async def credit(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """For each dialogue one number per turn of the agent: its advantage, or its value with a value critic.

        Raises:
            UserError: the critic cannot score a turn, for example an empty message.
        """
        has_chat = getattr(self.critic, "form", self.critic)
        records = [taken_turns(trajectory, has_chat) for trajectory in trajectories]
        async with self._calls:
            scores = iter(await self.critic.scores([record for own in records for record in own]))
        return [[next(scores)[0] for _ in own] for own in records]


def score_turns_file(
    settings: CriticSettings,
    input_path: str,
    output_path: str,
    limit: int | None = None,
    overwrite: bool = False,
) -> dict:
    """Write every trajectory of a file with `turn_credit`, in its order. A killed run continues with the same call.

    A failed dialogue is written as it is.

    Returns:
        The summary: dialogues, turns.

    Raises:
        UserError: before anything is written; or a turn cannot be scored, for example an empty message.
    """
    check_scores_turns(settings)
    trajectories = read_records(input_path, Trajectory, limit)
    for model in filter(None, (settings.model_id, settings.seed_model)):
        check_loadable(model)
    heard = {"reply": "of the dialogue"} if settings.critic_type in WITH_REPLIES else {}
    recorded = {**settings.to_settings(), **heard, "limit": limit}
    opened = open_run(output_path, recorded, [input_path, *settings.inputs()], overwrite)
    with opened as run:
        if run.complete:
            print(f"{output_path}: already complete")
            return run.summary or {}
        todo = [trajectory for trajectory in trajectories if trajectory.id not in run.done]
        asyncio.run(_score(run, TurnCritic(settings), todo))
        turns = sum(len(row.get("turn_credit") or ()) for row in run.records())
        summary = {"dialogues": len(trajectories), "turns": turns}
        run.finish(summary)
        print(f"{output_path}: {turns} turns of {len(trajectories)} dialogues scored")
        return summary


async def _score(run: Run, turns: TurnCritic, todo: list[Trajectory]) -> None:
    try:
        with progress_bar(total=len(todo), desc="dialogues scored") as bar:
            for group in _groups(todo, turns.critic.turns_per_call):
                for trajectory, credit in zip(group, await turns.credit(group), strict=True):
                    run.write(dataclasses.replace(trajectory, turn_credit=credit or None).to_dict())
                bar.update(len(group))
    finally:
        await turns.critic.close()


def _groups(trajectories: list[Trajectory], turns: int) -> Iterator[list[Trajectory]]:
    """Consecutive dialogues with at least so many turns together."""
    group: list[Trajectory] = []
    for trajectory in trajectories:
        group.append(trajectory)
        if sum(one.turns for one in group) >= turns:
            yield group
            group = []
    if group:
        yield group
