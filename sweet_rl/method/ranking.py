"""Ranking a file of candidates with a critic (step 5): the same records, with judge_scores and judge_result."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from itertools import islice

from sweet_rl.method.advantage import order_by_score
from sweet_rl.method.critics import ChosenCritic
from sweet_rl.method.sweet_critic import ScoringModel
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import TurnCandidates, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, shard_of, write_results


def rank_file(
    critic: ChosenCritic,
    input_path: str,
    output_path: str,
    step: StepSettings | None = None,
    place_answers: bool = False,
) -> dict:
    """Rank every record of a file, in its order. A killed run continues with the same call.

    With `place_answers`, right answers are ranked above all other candidates and wrong ones below (`placed`).

    Returns:
        The summary: turns, candidates; if candidates were empty, empty_candidates_left_out and turns_left_out (turns
        left out because all their candidates were empty).

    Raises:
        UserError: Before anything is written; or, after the other records were written, because a server failed.
    """
    step = step or StepSettings()
    settings = critic.to_settings() | {"limit": step.limit, "shard": step.shard}
    settings |= {"place_answers": True} if place_answers else {}
    with open_run(output_path, settings, [input_path, *critic.inputs()], step.overwrite) as run:
        if run.finished:
            return run.show()
        read = list(shard_of(read_records(input_path, TurnCandidates, step.limit), step.shard))
        if not read:
            raise UserError(f"--shard {step.shard}: there are fewer records in {input_path} than shards. Use fewer.")
        for record in read:
            if place_answers and record.answer_rewards is None:
                raise UserError(
                    f"{input_path}: candidates {record.id!r} have no answer_rewards, which --place_answers needs. Run "
                    "grade_candidates.py on the file and rank its output."
                )
        records = [record.without_empty() for record in read if record.with_tokens() or not record.additional_outputs]
        if not records:
            raise UserError(f"{input_path}: no candidate has a single token, so there is nothing to rank.")
        summary = {"turns": len(records), "candidates": sum(len(record.additional_outputs) for record in records)}
        if empty := sum(len(record.additional_outputs) for record in read) - summary["candidates"]:
            summary |= {"empty_candidates_left_out": empty, "turns_left_out": len(read) - len(records)}
        if isinstance(critic.settings, ScoringModel) and not getattr(critic.settings, "hostname", None):
            import torch

            if (gpus := torch.cuda.device_count()) > 1:
                print(f"this process ranks on one of {gpus} GPUs; docs/train.md shows how each ranks a part")
        critic.check_temperature(_sampling_temperature(input_path), input_path)
        asyncio.run(_rank(run, records, critic, place_answers))
        run.sort(record.id for record in records)
        return run.finish(summary)


def _sampling_temperature(path: str) -> float:
    """The temperature at which the candidates of a file were sampled, by its manifest; 1 if that does not say it."""
    manifest = read_manifest(path)
    return (manifest["settings"].get("sampling") or {}).get("temperature", 1.0) if manifest else 1.0


async def _rank(run: Run, records: Sequence[TurnCandidates], critic: ChosenCritic, place_answers: bool) -> None:
    """Write the records that the run lacks, ranked."""
    loaded = critic.load()

    async def rank(chunk: list[TurnCandidates]) -> list[dict]:
        scores = await loaded.scores(chunk)
        if place_answers:
            scores = [placed(record, values) for record, values in zip(chunk, scores, strict=True)]
        return [ranked(*pair, loaded.eos_text).to_dict() for pair in zip(chunk, scores, strict=True)]

    missing = iter([record for record in records if record.id not in run.done])
    chunks = iter(lambda: list(islice(missing, loaded.turns_per_call)), [])
    try:
        await write_results(run, chunks, rank, loaded.calls_at_once, len(records), "turn", size=len)
    finally:
        await loaded.close()


def ranked(record: TurnCandidates, scores: list[float], eos_text: str | None) -> TurnCandidates:
    """The record with judge_scores and judge_result (indices of candidates, best first).

    The critic's `eos_text` is recorded if the record does not name one.
    """
    eos_text = eos_text if record.eos_text is None else record.eos_text
    return dataclasses.replace(record, judge_scores=scores, judge_result=order_by_score(scores), eos_text=eos_text)


def placed(record: TurnCandidates, scores: Sequence[float]) -> list[float]:
    """The scores of a turn's candidates, with right answers (reward 1) above all others and wrong ones below.

    The critic's order among answers, and among questions, stays. A candidate without a reward keeps its score.
    """
    shift = 1 + max(scores, default=0.0) - min(scores, default=0.0)
    return [
        score if reward is None else score + (shift if reward == 1.0 else -shift)
        for score, reward in zip(scores, record.answer_rewards or [None] * len(scores), strict=True)
    ]
