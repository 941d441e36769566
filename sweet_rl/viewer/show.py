"""From a file of the pipeline to one HTML page: read it, score it, write the page."""

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
        results: Comparison that compare_runs.py wrote (JSON); its table and figure come first on the page.
        limit: Number of records that are shown, from the first one; by default 100, of web pages 20.
        overwrite: Replace an output that holds something else.

    Raises:
        UserError: An output that is one of the inputs, or a limit below 1.
    """

    input_path: str
    output: str | None = None
    results: str | None = None
    limit: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_paths([self.page], [self.input_path, self.results])
        if self.limit is not None and self.limit < 1:
            raise UserError(f"--limit is {self.limit}; it must be at least 1.")

    @property
    def page(self) -> Path:
        """The path of the HTML file."""
        return Path(self.output) if self.output is not None else Path(self.input_path).with_suffix(".html")


def show(view: ViewSettings, critic: ChosenCritic | None = None, pictures: Pictures | None = None) -> None:
    """Write the page of a file.

    Args:
        view: File and options.
        critic: Critic that gives the turns of the shown dialogues their credit; by default the records' `turn_credit`.
        pictures: Pictures of the pages of frontend dialogues; without them pages are shown as source text.

    Raises:
        UserError: There is nothing in the file to look at, or a line of it is wrong.
    """
    kind = kind_of(view.input_path)
    _check_kind(kind, view, critic, pictures)
    results = read_results(view.results) if view.results else None
    notes: list[str] = []
    try:
        check_finished(view.input_path)
    except UserError as error:
        notes.append(f"Shown as it stands: {error}")
    limit = view.limit or (RECORDS if pictures is None else DESIGNS)
    entries: list[dict]
    if kind is Trajectory:
        entries = _dialogues(_first(view.input_path, Trajectory, limit, notes), view, critic, pictures)
    elif kind is TurnCandidates:
        entries = [{"turn": turn_view(record)} for record in _first(view.input_path, TurnCandidates, limit, notes)]
    else:
        entries = [{"pair": pair_view(pair)} for pair in _first(view.input_path, PreferencePair, limit, notes)]
    for line in notes:
        print(line)
    text = page_html(Path(view.input_path).name, entries, notes, results)
    write_texts({view.page: text}, view.overwrite)
    print(f"{view.page}: {len(text) / 1e6:.1f} MB. Open it in a browser; it needs no network.")


def _first(path: str, kind: type[Shown], limit: int, notes: list[str]) -> list[Shown]:
    """The first records of a file; `notes` gets a sentence if there are more."""
    records = read_records(path, kind, limit + 1)
    if len(records) > limit:
        notes.append(f"The first {limit} records are shown; --limit shows more.")
    return records[:limit]


def _dialogues(
    trajectories: Sequence[Trajectory], view: ViewSettings, critic: ChosenCritic | None, pictures: Pictures | None
) -> list[dict]:
    if pictures is not None:
        if trajectories and answered_page(trajectories[0].task.ground_truth) is None:
            raise UserError(
                f"{view.input_path}: the reference of its first dialogue is no HTML page. Dialogues about code are "
                "shown by visualize_dialogue_histories.py."
            )
        pictures.draw(trajectories)
    credit = asyncio.run(_credit(critic, trajectories)) if critic is not None else [None] * len(trajectories)
    return [{"dialogue": dialogue_view(*pair, pictures)} for pair in zip(trajectories, credit, strict=True)]


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


def _check_kind(kind: type, view: ViewSettings, critic: ChosenCritic | None, pictures: Pictures | None) -> None:
    if kind is Task:
        raise UserError(
            f"{view.input_path} holds tasks: there is no dialogue in it to look at. Play some with "
            "simulate_interactions.py."
        )
    if kind is not Trajectory and pictures is not None:
        raise UserError(f"{view.input_path} holds no dialogues. Look at it with visualize_dialogue_histories.py.")
    if kind is not Trajectory and critic is not None:
        raise UserError(f"{view.input_path} holds {kind.__name__} records: --critic is not for them.")
