"""Scores the messages that were really sent: each is a record of candidates with one candidate."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from itertools import islice

from sweet_rl.method.candidates import turns_of
from sweet_rl.method.critics import CheckedCritic, ChosenCritic
from sweet_rl.method.sweet_critic import SweetSettings, seed_of
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, write_results

REPLIES = "additional_replies"
"""Field of a record of candidates: the human's reply to each ("" for none)."""


def taken_turns(trajectory: Trajectory, chat: ChatFormat | None) -> list[TurnCandidates]:
    """A record with one candidate for each turn of the agent, the answer included; none if the dialogue failed.

    Args:
        trajectory: The dialogue.
        chat: Chat format that lays out the prompts; None leaves them empty, unless the dialogue has their texts.
    """
    history = trajectory.dialogue_history
    taken = [place for place, message in enumerate(history) if message["role"] == "assistant"]
    records = []
    for turn, place in zip(turns_of(trajectory, chat), taken, strict=False):  # none in a failed dialogue
        message, replies = history[place], [reply["content"] for reply in history[place + 1 : place + 2]]
        ids, logprobs = message.get("token_ids"), message.get("logprobs")
        same_tokenizer = turn.tokenizer is not None and turn.tokenizer == trajectory.tokenizer
        record = dataclasses.replace(
            turn,
            additional_outputs=[turn.older_output],
            additional_finish_reasons=[message.get("finish_reason") or "stop"],
            additional_token_ids=[ids] if ids is not None and same_tokenizer else None,
            additional_reference_logprobs=[logprobs] if logprobs else None,
            extra={REPLIES: replies or [""]},
        )
        record.where = turn.where
        records.append(record)
    return records


class TurnScorer:
    """A critic that scores turns: those of finished dialogues, or the candidates of a turn.

    Raises:
        UserError: The critic compares candidates (a judge), so that a single turn cannot be scored; or it cannot be
            loaded.
    """

    def __init__(self, chosen: ChosenCritic) -> None:
        self.critic: CheckedCritic = of_finished_dialogues(chosen).load()

    async def credit(self, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """For each dialogue one score per turn of the agent; none if a turn was cut before its first token.

        Raises:
            UserError: The critic cannot score a turn.
        """
        taken = [taken_turns(trajectory, self.critic.chat) for trajectory in trajectories]
        groups = [group if all(record.produced(0) for record in group) else [] for group in taken]
        scores = iter(await self.critic.scores([record for group in groups for record in group]))
        return [[next(scores)[0] for _ in group] for group in groups]

    async def rows(self, records: Sequence[Trajectory]) -> list[list[dict]]:
        """The credit for the viewer.

        Returns:
            For each dialogue a row per turn of the agent: its number, `turn`, and what `token_credit` gives. Turns that
            were cut before their first token have no row.
        """
        taken = [taken_turns(record, self.critic.chat) for record in records]
        turns = [turn for group in taken for turn in group if turn.produced(0)]
        scored = iter(await self.critic.token_credit(turns))
        return [
            [{"turn": number, **next(scored)[0]} for number, turn in enumerate(group) if turn.produced(0)]
            for group in taken
        ]


def of_finished_dialogues(chosen: ChosenCritic) -> ChosenCritic:
    """The critic with a reference that does not need log-probs of sampling.

    Those are the usual reference of a log-ratio, and step 1 does not store them. By default the critic's seed model
    without the reference solution takes their place. Raises UserError for a critic that only compares candidates.
    """
    if chosen.kind.compares:
        raise UserError(
            f"critic: a {chosen.critic_type} compares candidates of one turn, and a dialogue has one message per turn. "
            "Give another critic_type."
        )
    settings = chosen.settings
    if not isinstance(settings, SweetSettings) or settings.reference is not None or not seed_of(settings.model_id):
        return chosen
    return ChosenCritic(chosen.critic_type, {"reference_model_id": seed_of(settings.model_id), **chosen.given})


def score_turns_file(critic: ChosenCritic, input_path: str, output_path: str, step: StepSettings | None = None) -> dict:
    """Write every trajectory of a file with `turn_credit`, in its order. A killed run continues with the same call.

    A failed dialogue, and one with a turn that was cut before its first token, is written as it is.

    Returns:
        The summary: dialogues, turns, dialogues_without_credit.

    Raises:
        UserError: Before anything is written; or a turn cannot be scored.
    """
    step = step or StepSettings()
    critic = of_finished_dialogues(critic)
    settings = {**critic.to_settings(), "limit": step.limit}
    with open_run(output_path, settings, [input_path, *critic.inputs()], step.overwrite) as run:
        if run.finished:
            return run.show()
        trajectories = read_records(input_path, Trajectory, step.limit)
        asyncio.run(_score(run, trajectories, critic))
        run.sort(one.id for one in trajectories)
        turns = [len(row.get("turn_credit") or ()) for row in run.records()]
        summary = {"dialogues": len(trajectories), "turns": sum(turns), "dialogues_without_credit": turns.count(0)}
        return run.finish(summary)


async def _score(run: Run, trajectories: list[Trajectory], critic: ChosenCritic) -> None:
    """Write the trajectories that the run lacks, with their credit."""
    scorer = TurnScorer(critic)

    async def credited(group: list[Trajectory]) -> list[dict]:
        credits = await scorer.credit(group)
        pairs = zip(group, credits, strict=True)
        return [dataclasses.replace(trajectory, turn_credit=credit or None).to_dict() for trajectory, credit in pairs]

    missing = iter([one for one in trajectories if one.id not in run.done])
    dialogues = max(1, scorer.critic.turns_per_call // 4)  # at once: most have several turns
    groups = iter(lambda: list(islice(missing, dialogues)), [])
    try:
        await write_results(run, groups, credited, scorer.critic.calls_at_once, len(trajectories), "dialogue")
    finally:
        await scorer.critic.close()
