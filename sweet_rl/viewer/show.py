"""From files of the pipeline to one HTML page: open the input and what belongs to it, score it, write the page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sweet_rl.dialogues.frontend.extract_page import answered_page
from sweet_rl.method.critics import ChosenCritic
from sweet_rl.method.turn_credit import TurnScorer
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.paths import check_paths, write_texts
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, TurnCandidates, kind_of, read_records
from sweet_rl.viewer.designs import Pictures
from sweet_rl.viewer.page import page_html
from sweet_rl.viewer.results import read_results
from sweet_rl.viewer.views import dialogue_view, pair_view, turn_view

Shown = TypeVar("Shown", Trajectory, TurnCandidates, PreferencePair)
RECORDS, DESIGNS = 100, 20  # that are shown by default; a page of designs is mostly pictures


@dataclass(frozen=True)
class ViewSettings:
    """What is shown on the page.

    Attributes:
        input_path: Trajectories, candidates or pairs (JSONL); the kind is known from the fields of the first record.
        output: HTML file; by default the input's name with .html.
        compare_path: Trajectories of a second run on the same tasks, shown beside the first.
        ranked_path: Ranked candidates of these trajectories, shown at their turns.
        pair_path: Turn pairs drawn from the ranked candidates, to mark which candidates were chosen and rejected.
        results: Comparison that compare_runs.py wrote (JSON); its table and figure come first on the page.
        limit: Number of records that are shown, from the first one; by default 100, of web pages 20.
        overwrite: Replace an output that holds something else.

    Raises:
        UserError: An output that is one of the inputs, or a limit below 1.
    """

    input_path: str
    output: str | None = None
    compare_path: str | None = None
    ranked_path: str | None = None
    pair_path: str | None = None
    results: str | None = None
    limit: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_paths([self.page], [*self.inputs, self.results])
        if self.limit is not None and self.limit < 1:
            raise UserError(f"--limit is {self.limit}; it must be at least 1.")

    @property
    def inputs(self) -> list[str | None]:
        """The files of records that are shown; None for those that were not given."""
        return [self.input_path, self.compare_path, self.ranked_path, self.pair_path]

    @property
    def page(self) -> Path:
        """The path of the HTML file."""
        return Path(self.output) if self.output is not None else Path(self.input_path).with_suffix(".html")


def show(view: ViewSettings, critic: ChosenCritic | None = None, pictures: Pictures | None = None) -> None:
    """Write the page of a file.

    Args:
        view: Files and options.
        critic: Critic that gives the turns of the shown dialogues their credit; by default the records' `turn_credit`.
        pictures: Pictures of the pages of frontend dialogues; without them pages are shown as source text.

    Raises:
        UserError: The files do not go together, or a line of them is wrong.
    """
    kind = kind_of(view.input_path)
    _check_together(kind, view, critic, pictures)
    results = read_results(view.results) if view.results else None
    notes: list[str] = []
    for path in filter(None, view.inputs):
        try:
            check_finished(path)
        except UserError as error:
            notes.append(f"Shown as it stands: {error}")
    limit = view.limit or (RECORDS if pictures is None else DESIGNS)
    names = [Path(view.input_path).name]
    if kind is Trajectory:
        runs = [_first(view.input_path, Trajectory, limit, notes)]
        if view.compare_path is not None:
            runs = _same_dialogues(runs[0], view.compare_path, notes)
            names = _short_names(view.input_path, view.compare_path)
        entries = _dialogues(runs, view, critic, pictures)
    elif kind is TurnCandidates:
        pairs = _pairs(view.pair_path)
        candidates = _first(view.input_path, TurnCandidates, limit, notes)
        entries = [{"turn": turn_view(record, pairs.get(record.id, []))} for record in candidates]
    else:
        entries = [{"pair": pair_view(pair)} for pair in _first(view.input_path, PreferencePair, limit, notes)]
    for line in notes:
        print(line)
    text = page_html(names, entries, notes, results)
    write_texts({view.page: text}, view.overwrite)
    print(f"{view.page}: {len(text) / 1e6:.1f} MB. Open it in a browser; it needs no network.")


def _first(path: str, kind: type[Shown], limit: int, notes: list[str]) -> list[Shown]:
    """The first records of a file; `notes` gets a sentence if there are more."""
    records = read_records(path, kind, limit + 1)
    if len(records) > limit:
        notes.append(f"The first {limit} records are shown; --limit shows more.")
    return records[:limit]


def _dialogues(
    runs: Sequence[Sequence[Trajectory]], view: ViewSettings, critic: ChosenCritic | None, pictures: Pictures | None
) -> list[dict]:
    """An entry for each dialogue of the first run, with the dialogue of every run."""
    flat = [trajectory for run in runs for trajectory in run]
    if pictures is not None:
        if flat and answered_page(flat[0].task.ground_truth) is None:
            raise UserError(
                f"{view.input_path}: the reference of its first dialogue is no HTML page. Dialogues about code are "
                "shown by visualize_dialogue_histories.py."
            )
        pictures.draw(flat)
    credit = asyncio.run(_credit(critic, flat)) if critic is not None and flat else [None] * len(flat)
    ranked, pairs = {}, _pairs(view.pair_path)
    if view.ranked_path is not None:
        ranked = {record.id: record for record in read_records(view.ranked_path, TurnCandidates)}
    views = [dialogue_view(*pair, ranked, pairs, pictures) for pair in zip(flat, credit, strict=True)]
    count = len(runs[0])
    return [{"sides": views[number::count]} for number in range(count)]


async def _credit(critic: ChosenCritic, trajectories: Sequence[Trajectory]) -> list[list[dict]]:
    scorer = TurnScorer(critic)
    try:
        size = scorer.critic.turns_per_call
        rows: list[list[dict]] = []
        for start in range(0, len(trajectories), size):
            rows += await scorer.rows(trajectories[start : start + size])
        return rows
    finally:
        await scorer.critic.close()


def _same_dialogues(records: Sequence[Trajectory], path: str, notes: list[str]) -> list[list[Trajectory]]:
    """The dialogues that both runs have (the same task and sample); `notes` gets a sentence about the others."""
    others = {other.id: other for other in read_records(path, Trajectory)}
    both = [record for record in records if record.id in others]
    if not both:
        raise UserError(f"--compare_path {path}: none of its dialogues has the id of one that is shown.")
    if len(both) < len(records):
        notes.append(f"{len(records) - len(both)} dialogues are left out, because {path} has none with their id.")
    return [both, [others[record.id] for record in both]]


def _short_names(one: str, other: str) -> list[str]:
    """The names of two files up to their first dot; if these are the same, their paths."""
    names = [Path(path).name.partition(".")[0] for path in (one, other)]
    return names if names[0] != names[1] else [one, other]


def _pairs(path: str | None) -> dict[str, list[PreferencePair]]:
    """Turn pairs by the id of the candidates that they were drawn from."""
    pairs: dict[str, list[PreferencePair]] = {}
    for pair in read_records(path, PreferencePair) if path is not None else ():
        pairs.setdefault(pair.id.rpartition("-")[0], []).append(pair)
    return pairs


def _check_together(kind: type, view: ViewSettings, critic: ChosenCritic | None, pictures: Pictures | None) -> None:
    if kind is Task:
        raise UserError(
            f"{view.input_path} holds tasks: there is no dialogue in it to look at. Play some with "
            "simulate_interactions.py."
        )
    if pictures is not None and kind is not Trajectory:
        raise UserError(f"{view.input_path} holds no dialogues. Look at it with visualize_dialogue_histories.py.")
    for flag, given, kinds in (
        ("--compare_path", view.compare_path, (Trajectory,)),
        ("--ranked_path", view.ranked_path, (Trajectory,)),
        ("--critic", critic, (Trajectory,)),
        ("--pair_path", view.pair_path, (Trajectory, TurnCandidates)),
    ):
        if given and kind not in kinds:
            raise UserError(f"{view.input_path} holds {kind.__name__} records: {flag} is not for them.")
    if view.pair_path and kind is Trajectory and not view.ranked_path:
        raise UserError("--pair_path marks candidates: give --ranked_path, the ranked candidates, too.")
