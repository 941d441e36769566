"""Ranking a file of candidates with a critic (step 5): the same records, with judge_scores and judge_result."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from functools import partial
from itertools import islice

from tqdm import tqdm

from lab.critics.asked_human import AskedHuman
from sweet_rl.credit.advantage import order_by_score
from sweet_rl.credit.critics import Critic, CriticSettings, load_critic
from sweet_rl.errors import UserError
from sweet_rl.model_loading import check_loadable, gpu_memory, gpus_for, parameter_count, visible_groups
from sweet_rl.models.base import ChatModel, ModelError
from sweet_rl.progress import progress_bar
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.runs.parts import run_parts
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.shards import shard_of
from sweet_rl.runs.step import as_they_finish


def rank_file(
    critic: CriticSettings,
    input_path: str,
    output_path: str,
    limit: int | None = None,
    shard: str | None = None,
    overwrite: bool = False,
    processes: int | None = None,
    human: AskedHuman | None = None,
) -> dict:
    """Rank every record of a file, in its order. A killed run continues with the same call.

    Arguments are the flags of rank_best_of_n.py; a shard is ranked by one process. `human` replies to candidates if the
    critic asks for that. Returns the summary: turns, candidates.

    Raises:
        UserError: before anything is written; or, after the other records were written, because a server failed.
    """
    if processes is not None and processes < 1:
        raise UserError(f"--processes is {processes}; it must be at least 1.")
    records = list(shard_of(read_records(input_path, TurnCandidates, limit), shard))
    if not records:
        raise UserError(f"--shard {shard}: there are fewer records in {input_path} than shards. Use fewer.")
    if critic.critic_type != "judge":
        for model in filter(None, (critic.model_id, critic.seed_model)):
            check_loadable(model)
    asked = human_setting(critic.reply, human, records, input_path)
    settings = {**critic.to_settings(), "limit": limit, **({} if shard is None else {"shard": shard}), **asked}
    opened = open_run(output_path, settings, [input_path, *critic.inputs()], overwrite)
    with opened as run:
        if run.complete:
            print(f"{output_path}: already complete")
            return run.summary or {}
        todo = [record for record in records if record.id not in run.done]
        environments = processes_of(critic, processes, shard)[: len(records)]
        failed = 0
        if len(environments) > 1 and todo:
            run_parts(run, partial(_rank_part, critic, input_path, limit, human), environments)
        else:
            player = human and human.make()
            failed = asyncio.run(_rank(run, load_critic(critic, player), todo, getattr(player, "model", None)))
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


def human_setting(
    reply: bool, human: AskedHuman | None, records: Sequence[TurnCandidates], path: str
) -> dict[str, dict[str, str]]:
    """The human who is asked for replies to the candidates of a file, as a setting of a run; empty without one.

    Raises:
        UserError: a human is given and no replies are wanted, or the other way round; or the human cannot play a task
            of the file `path`.
    """
    if reply and human is None:
        raise UserError("--reply needs the human who is asked: give --env_model (and --task_type).")
    if human is not None and not reply:
        raise UserError("--env_model names the human who is asked for replies to candidates: give --reply too.")
    if human is None:
        return {}
    human.check([record.task for record in records if record.task is not None], path)
    return {"human": human.identity()}


def processes_of(critic: CriticSettings, processes: int | None, shard: str | None) -> list[dict[str, str]]:
    """The environment of each process that ranks; one is this process."""
    if shard is not None or critic.critic_type == "judge":  # a judge in this process has the GPUs that it needs
        return [{}]
    memory = gpu_memory()
    if not memory:
        return [{}] * (processes or 1)
    models = filter(None, (critic.model_id, critic.seed_model))
    weights = sum(parameter_count(model) for model in models) * (2 if critic.reduced else 4)
    groups = visible_groups(gpus_for(weights, memory))
    return groups[:processes]


def _rank_part(
    critic: CriticSettings,
    input_path: str,
    limit: int | None,
    human: AskedHuman | None,
    output_path: str,
    shard: str,
) -> None:
    rank_file(critic, input_path, output_path, limit, shard, human=human)


def ranked(record: TurnCandidates, scores: list[float], eos_text: str | None) -> TurnCandidates:
    """The record with judge_scores and judge_result (indices of candidates, best first).

    Args:
        scores: one per candidate.
        eos_text: the critic's EOS, recorded if the record does not name one.
    """
    eos_text = eos_text if record.eos_text is None else record.eos_text
    return dataclasses.replace(record, judge_scores=scores, judge_result=order_by_score(scores), eos_text=eos_text)


async def _rank(run: Run, critic: Critic, todo: list[TurnCandidates], human_model: ChatModel | None = None) -> int:
    """Write the records with their ranking; return how many could not be ranked."""
    waiting, failed = iter(todo), 0
    chunks = iter(lambda: list(islice(waiting, critic.turns_per_call)), [])

    async def score(chunk: list[TurnCandidates]):
        try:
            return chunk, await critic.scores(chunk)
        except ModelError as error:
            if error.kind == "auth":
                raise UserError(f"the server refuses the key or the model: {error}") from error
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
        if human_model is not None:
            await human_model.close()
    return failed
