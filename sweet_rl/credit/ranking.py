"""Ranking a file of candidates with a critic (step 5): the same records, with judge_scores and judge_result."""

from __future__ import annotations

import asyncio
import dataclasses
from itertools import islice

from tqdm import tqdm

from sweet_rl.credit.advantage import order_by_score
from sweet_rl.credit.critics import Critic, CriticSettings, load_critic
from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError
from sweet_rl.models.load import model_path
from sweet_rl.models.loadable import check_loadable
from sweet_rl.progress import progress_bar
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.rollout.play import as_they_finish
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.shards import shard_of


def rank_file(
    critic: CriticSettings,
    input_path: str,
    output_path: str,
    limit: int | None = None,
    shard: str | None = None,
    overwrite: bool = False,
) -> dict:
    """Rank every record of a file, in its order. A killed run continues with the same call.

    Args:
        limit: number of records that are read; None reads all.
        shard: "i/n": only the i-th of n parts of the records.

    Returns:
        The summary: turns, candidates.

    Raises:
        UserError: before anything is written; or, after the other records were written, because a server failed.
    """
    records = list(shard_of(read_records(input_path, TurnCandidates, limit), shard))
    if not records:
        raise UserError(f"--shard {shard}: there are fewer records in {input_path} than shards. Use fewer.")
    if critic.critic_type != "judge":
        for model in filter(None, (critic.model_id, critic.seed_model)):
            check_loadable(model_path(model))
    settings = {**critic.to_settings(), "limit": limit, **({} if shard is None else {"shard": shard})}
    with open_run(output_path, settings, [input_path, *critic.inputs()], overwrite) as run:
        if run.complete:
            print(f"{output_path}: already complete")
            return run.summary or {}
        todo = [record for record in records if record.id not in run.done]
        failed = asyncio.run(_rank(run, load_critic(critic), todo))
        if failed:
            raise UserError(
                f"{failed} turns could not be ranked; the others are in {output_path}. Run the same command again to "
                "rank them."
            )
        summary = {
            "turns": len(records),
            "candidates": sum(len(record.additional_outputs) for record in records),
        }
        run.finish(summary)
        print(f"{output_path}: {summary['candidates']} candidates of {summary['turns']} turns ranked")
        return summary


def ranked(record: TurnCandidates, scores: list[float], eos_text: str | None) -> TurnCandidates:
    """The record with judge_scores and judge_result (indices of candidates, best first).

    Args:
        scores: one per candidate.
        eos_text: the critic's EOS, recorded if the record does not name one.
    """
    eos_text = eos_text if record.eos_text is None else record.eos_text
    return dataclasses.replace(record, judge_scores=scores, judge_result=order_by_score(scores), eos_text=eos_text)


async def _rank(run: Run, critic: Critic, todo: list[TurnCandidates]) -> int:
    """Write the records with their ranking; return how many could not be ranked."""
    waiting, failed = iter(todo), 0
    chunks = iter(lambda: list(islice(waiting, critic.turns_per_call)), [])

    async def score(chunk: list[TurnCandidates]):
        try:
            return chunk, await critic.scores(chunk)
        except ModelError as error:
            if error.kind == "auth":
                raise UserError(f"the judge's server refuses the key or the model: {error}") from error
            tqdm.write(f"{chunk[0].id}: {error.kind}: {error}")
            return chunk, None

    try:
        total = sum(len(record.additional_outputs) for record in todo)
        with progress_bar(total=total, desc="candidates ranked") as bar:
            async for chunk, scores in as_they_finish(chunks, score, critic.calls_at_once):
                if scores is None:
                    failed += len(chunk)
                    continue
                for record, values in zip(chunk, scores, strict=True):
                    run.write(ranked(record, values, critic.eos_text).to_dict())
                    bar.update(len(values))
    finally:
        await critic.close()
    return failed
