"""Checks of turn credit before a critic is trained: the same candidates in several orders, against a person's labels.

A critic's accuracy on pairs of dialogues says nothing about turns (docs/results.md). So a person compares a hundred
pairs of candidates, and each way to score them is held to these labels.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from sweet_rl.evaluation.statistics import bootstrap_interval, interval_text, win_share
from sweet_rl.evaluation.table import Table
from sweet_rl.method.critics import ChosenCritic
from sweet_rl.method.ranking import rank_file
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import write_texts
from sweet_rl.runs.records import Task, TurnCandidates, read_records, seed_for
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings

COLUMNS = ["pair", "solution", "dialogue", "A", "B", "better"]
Label: TypeAlias = Literal["A", "B", "="]
PairKey: TypeAlias = tuple[str, int, int]  # id of a record, numbers of candidates A and B
# By task: 1 for each pair that is in the right order, a half for equal scores.
Shares: TypeAlias = dict[str, list[float]]
OWN_C, OTHER_C = "PMI, sum", "PMI, sum, c of other tasks"


@dataclass(frozen=True)
class CheckSettings:
    """What scores the candidates, and how many pairs a person labels.

    Attributes:
        model_id: Untrained agent, which gives PMI: directory or hub name.
        critic: Trained critic, if there is one: directory or hub name.
        num_pairs: Number of pairs that are laid out for labels, one of each turn that is drawn.
        seed: Random seed of the pairs, and of the tasks whose solutions are exchanged.
    """

    model_id: str
    critic: str | None = None
    num_pairs: int = 100
    seed: int = 0


def check_credit(settings: CheckSettings, input_path: str, output_dir: str, step: StepSettings) -> None:
    """Score the candidates in every way, lay out pairs for labels, and print a table. A killed run continues.

    Args:
        settings: What scores the candidates.
        input_path: Candidates of sample_best_of_n.py; with answer_rewards (grade_candidates.py) the table says how
            often a right answer stands above the others.
        output_dir: Folder of the ranked files, of `labels.csv`, which is never overwritten, and of `checks.md`.
        step: Part of the input.

    Raises:
        UserError: A turn without its task, or fewer than two solutions; labels of other candidates.
    """
    records = read_records(input_path, TurnCandidates, step.limit)
    folder, other_c = Path(output_dir), str(Path(output_dir) / "other_c.jsonl")
    others = with_other_solutions(records, settings.seed, input_path)
    pairs = draw_pairs(records, settings.num_pairs, settings.seed)
    write_pairs(folder / "labels.csv", pairs)
    labels = read_labels(folder / "labels.csv", records)
    recorded = {"seed": settings.seed, "limit": step.limit}
    with open_run(other_c, recorded, [input_path], step.overwrite) as run:
        if not run.finished:
            run.write_missing(record.to_dict() for record in others)
            run.finish({"turns": len(others)})
    scores = {}
    for name, (critic, source) in _ways(settings, records, input_path, other_c).items():
        ranked = folder / f"{''.join(c if c.isalnum() else '_' for c in name)}.jsonl"
        rank_file(critic, source, str(ranked), step)
        scores[name] = scores_by_number(records, read_records(ranked, TurnCandidates))
    table, note = report(records, scores, labels), note_on(records, labels, folder / "labels.csv")
    write_texts({folder / "checks.md": f"{table.markdown()}\n\n{note}\n"}, overwrite=True)
    print(f"{table.text()}\n\n{note}")


def scores_by_number(
    records: Sequence[TurnCandidates], ranked: Sequence[TurnCandidates]
) -> dict[str, dict[int, float]]:
    """The scores of each record by the number of the candidate in `records`; ranking leaves empty candidates out."""
    numbers = {record.id: record.with_tokens() for record in records}
    return {one.id: dict(zip(numbers[one.id], one.judge_scores or (), strict=True)) for one in ranked}


def _ways(
    settings: CheckSettings, records: Sequence[TurnCandidates], path: str, other_c: str
) -> dict[str, tuple[ChosenCritic, str]]:
    """The ways to score candidates by name, and the file that each reads: the candidates, or those with other c."""

    def pmi(normalize: str) -> ChosenCritic:
        return ChosenCritic("pmi", {"model_id": settings.model_id, "normalize": normalize})

    found = {
        OWN_C: (pmi("none"), path),
        "PMI, mean": (pmi("turn"), path),
        OTHER_C: (pmi("none"), other_c),
    }
    if settings.critic is not None:
        sampled = all(record.additional_reference_logprobs is not None for record in records)
        for reference in ("sampled" if sampled else "seed_without_c", "seed"):
            given = {"model_id": settings.critic, "reference": reference}
            if reference != "sampled":
                given["reference_model_id"] = settings.model_id
            found[f"critic, reference {reference}"] = ChosenCritic("log_ratio", given), path
    return found


def with_other_solutions(records: Sequence[TurnCandidates], seed: int, path: str) -> list[TurnCandidates]:
    """The records, each with the solution of another task; a task gets the same one in all its turns.

    Raises:
        UserError: A record without its task, or all tasks have one solution.
    """
    tasks: dict[str, Task] = {}
    for record in records:
        if record.task is None:
            raise UserError(f"{path}: candidates {record.id!r} have no task, so their solution c is not known.")
        tasks.setdefault(record.task.id, record.task)
    solutions = sorted({task.ground_truth for task in tasks.values()})
    if len(solutions) < 2:
        raise UserError(f"{path}: all tasks have the same solution; the check with that of another task needs two.")
    random.Random(seed_for(seed, "other_c")).shuffle(solutions)
    following = dict(zip(solutions, [*solutions[1:], solutions[0]], strict=True))
    swapped = {key: replace(task, ground_truth=following[task.ground_truth]) for key, task in tasks.items()}
    return [replace(record, task=swapped[record.task.id]) for record in records if record.task is not None]


def draw_pairs(records: Sequence[TurnCandidates], number: int, seed: int) -> list[dict[str, str]]:
    """Rows of `COLUMNS`: pairs of different texts, one of each of `number` random turns, in random order of A and B."""
    rng = random.Random(seed_for(seed, "labels"))
    drawn: list[dict[str, str]] = []
    for record in rng.sample(list(records), len(records)):
        texts, numbers = record.additional_outputs, record.with_tokens()
        pairs = [(a, b) for a in numbers for b in numbers if texts[a].strip() != texts[b].strip()]
        if not pairs or len(drawn) == number:
            continue
        a, b = rng.choice(pairs)
        solution = record.task.ground_truth if record.task else ""
        cells = f"{record.id}:{a}:{b}", solution, _dialogue(record), _text(record, a), _text(record, b), ""
        drawn.append(dict(zip(COLUMNS, cells, strict=True)))
    return drawn


def _text(record: TurnCandidates, number: int) -> str:
    """A candidate as a person sees it: an answer with its reward, because reading does not tell whether it is right."""
    text = record.additional_outputs[number]
    reward = record.answer_rewards[number] if record.answer_rewards else None
    return text if reward is None else f"{text}\n\n[an answer; its reward: {reward:g}]"


def _dialogue(record: TurnCandidates) -> str:
    if record.dialogue is None:
        return record.input if isinstance(record.input, str) else parts_text(record.input)
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in record.dialogue)


def write_pairs(path: Path, pairs: Sequence[dict[str, str]]) -> None:
    """Write the pairs with an empty column `better`, unless the file exists: it may hold a person's work."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS)
        rows.writeheader()
        rows.writerows(pairs)


def read_labels(path: Path, records: Sequence[TurnCandidates]) -> dict[PairKey, Label]:
    """The labels that a person has given: for (record, A, B) which one is better, or "=".

    Raises:
        UserError: Another label, or a pair of other candidates or with an empty one.
    """
    by_id = {record.id: record for record in records}
    labels: dict[PairKey, Label] = {}
    csv.field_size_limit(2**31 - 1)  # a dialogue may be long
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        for row in rows:
            where, name = f"{path}, line {rows.line_num}", row.get("pair") or ""
            record_id, *numbers = name.rsplit(":", 2)
            known = map(str, by_id[record_id].with_tokens()) if record_id in by_id else ()
            if len(numbers) != 2 or not {*numbers} <= {*known}:
                raise UserError(
                    f"{where}: {name!r} is no pair of these candidates, or one is empty. Were they sampled anew? Then "
                    "move the file away, or give another --output_dir."
                )
            label = (row.get("better") or "").strip().upper()
            if label not in ("A", "B", "=", ""):
                raise UserError(f"{where}: better is {label!r}; it must be A, B, = (equal worth) or empty.")
            if label:
                labels[record_id, int(numbers[0]), int(numbers[1])] = label  # type: ignore[assignment]
    return labels


def report(
    records: Sequence[TurnCandidates],
    scores: Mapping[str, Mapping[str, Mapping[int, float]]],
    labels: Mapping[PairKey, Label],
) -> Table:
    """For each way: share of pairs in the labels' order, and share with a right answer above another candidate.

    Then, on the same pairs, PMI minus PMI with other tasks' solutions, and each critic minus PMI.

    Equal scores count half. Pairs that a person calls equal are left out. A share is the mean over tasks, and its
    interval is over tasks. Empty candidates have no score and are left out.

    Args:
        records: The candidates.
        scores: Scores by way, record and number of the candidate.
        labels: What `read_labels` returns.
    """
    by_id = {record.id: record for record in records}
    labelled = [(key, *((a, b) if label == "A" else (b, a))) for (key, a, b), label in labels.items() if label != "="]
    answers = [(record.id, right, other) for record in records for right, other in _right_and_other(record)]

    def shares(pairs: Sequence[PairKey], own: Mapping[str, Mapping[int, float]]) -> Shares:
        found: Shares = {}
        for key, better, worse in pairs:
            share = win_share([own[key][better]], [own[key][worse]])
            found.setdefault(_task(by_id[key]), []).append(share)
        return found

    rows = [["", "as labelled %", "95 % interval", "right answer above %", "95 % interval"]]
    found = {name: [shares(labelled, own), shares(answers, own)] for name, own in scores.items()}
    for name, both in found.items():
        rows.append([name, *(cell for values in both for cell in _cells(values))])
    compared = {"own c - other c": (OWN_C, OTHER_C)}
    compared |= {f"{way.replace(', reference', '')} - PMI": (way, OWN_C) for way in found if way.startswith("critic")}
    for name, (one, other) in compared.items() if OWN_C in found else ():
        gaps = [_difference(mine, its) for mine, its in zip(found[one], found[other], strict=True)]
        rows.append([name, *(cell for values in gaps for cell in _cells(values, -1.0, "+"))])
    return Table(rows, 4)


def _right_and_other(record: TurnCandidates) -> list[tuple[int, int]]:
    """Each right answer among the candidates with each candidate that is none."""
    rewards, numbers = record.answer_rewards or [], record.with_tokens()
    right = [number for number in numbers if rewards and rewards[number] == 1.0]
    return [(one, other) for one in right for other in numbers if other not in right]


def _difference(one: Shares, other: Shares) -> Shares:
    return {task: [a - b for a, b in zip(values, other[task], strict=True)] for task, values in one.items()}


def _task(record: TurnCandidates) -> str:
    return record.id if record.task is None else record.task.id


def _cells(values: Shares, lowest: float = 0.0, sign: str = "") -> list[str]:
    if not values:
        return ["", ""]
    estimate = bootstrap_interval(values, lowest=lowest)
    return [f"{100 * estimate.mean:{sign}.1f}", interval_text(estimate.low, estimate.high, sign)]


def note_on(records: Sequence[TurnCandidates], labels: Mapping[PairKey, Label], path: Path) -> str:
    """What is labelled, and of how many pairs and tasks the shares are."""
    if not labels:
        return (
            f"No pair is labelled yet: write A, B or = (equal worth) into the column 'better' of {path}, then give the "
            "same command again."
        )
    by_id = {record.id: record for record in records}
    judged = [key for (key, _, _), label in labels.items() if label != "="]
    tasks, equal = len({_task(by_id[key]) for key in judged}), len(labels) - len(judged)
    return (
        f"{len(labels)} pairs are labelled, {equal} of them ({100 * equal / len(labels):.0f} %) as of equal worth. "
        f"The shares are means over the {tasks} tasks of the other {len(judged)}."
    )
