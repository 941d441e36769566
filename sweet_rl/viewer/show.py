"""From files to the page: open the input and what belongs to it, then write the page or serve it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sweet_rl.method.critics import ChosenCritic
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, TurnCandidates, kind_of, read_records
from sweet_rl.runs.texts import write_texts
from sweet_rl.viewer.candidates import Candidates, Ranked
from sweet_rl.viewer.credit_file import CreditFile, write_credit
from sweet_rl.viewer.designs import Designs, Pictures
from sweet_rl.viewer.entries import Collection, Comparison, Dialogues, Pairs
from sweet_rl.viewer.page import write_page
from sweet_rl.viewer.serve import serve

LARGE = 60_000_000  # bytes of a page that browsers open slowly


@dataclass(frozen=True)
class ViewSettings:
    """What is looked at, and whether it is written or served.

    Attributes:
        input_path: Trajectories, candidates or pairs (JSONL); the kind is known from the fields of the first record.
        output: HTML file; by default the input's name with .html.
        serve: Write no file; serve the page on 127.0.0.1 and read entries on request.
        port: Port of --serve; 0 takes a free one.
        compare_path: Trajectories of a second run on the same tasks, shown beside the first.
        names: Names of the two runs, separated by a comma; default: the names of the files.
        credit_path: File of the critic's credit, computed once; default with --critic: beside the output.
        ranked_path: Ranked candidates of these trajectories, shown at their turns.
        pair_path: Turn pairs drawn from the ranked candidates, to mark which candidates were chosen and rejected.
        limit: Number of records that are shown, from the first one.
        overwrite: Replace an output that holds something else.

    Raises:
        UserError: --output with --serve, or an output that is one of the inputs.
    """

    input_path: str
    output: str | None = None
    serve: bool = False
    port: int = 8765
    compare_path: str | None = None
    names: list[str] | None = None
    credit_path: str | None = None
    ranked_path: str | None = None
    pair_path: str | None = None
    limit: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.output is not None and self.serve:
            raise UserError("--output is a file and --serve writes none: give one of them.")
        check_paths([] if self.serve else [self.page], self.inputs)

    @property
    def inputs(self) -> list[str | None]:
        """The files that are shown; None for those that were not given."""
        return [self.input_path, self.compare_path, self.credit_path, self.ranked_path, self.pair_path]

    @property
    def page(self) -> Path:
        """The path of the HTML file."""
        return Path(self.output) if self.output is not None else Path(self.input_path).with_suffix(".html")


def show(view: ViewSettings, credit: ChosenCritic | None = None, pictures: Pictures | None = None) -> None:
    """Open the files, compute the credit if asked for, and write the page or serve it until interrupted.

    Raises:
        UserError: the files do not go together, or a line of them is wrong.
    """
    collection = open_collection(view, credit, pictures)
    for path in filter(None, view.inputs):
        try:
            check_finished(path)
        except UserError as error:
            print(f"shown as it stands: {error}")
    if view.serve:
        serve(collection, pictures, view.port)
        return
    text = write_page(collection, pictures)
    write_texts({view.page: text}, view.overwrite)
    print(f"{view.page}: {len(text) / 1e6:.1f} MB. Open it in a browser; it needs no network.")
    if len(text) > LARGE:
        print("It is large and will open slowly: --serve reads entries on request, --limit takes the first ones.")


def open_collection(
    view: ViewSettings, credit: ChosenCritic | None = None, pictures: Pictures | None = None
) -> Collection:
    """Open a file of trajectories, candidates or pairs, with the files that belong to it.

    Args:
        view: Files and options.
        credit: Critic whose credit is computed first and kept.
        pictures: Pictures of the pages of frontend dialogues; without them pages are shown as source.

    Raises:
        UserError: the files do not go together.
    """
    kind, limit = kind_of(view.input_path), view.limit
    if kind is Task:
        raise UserError(
            f"{view.input_path} holds tasks: there is no dialogue in it to look at. Play some with "
            "simulate_interactions.py."
        )
    if pictures is not None and kind is not Trajectory:
        raise UserError(f"{view.input_path} holds no dialogues. Look at it with visualize_dialogue_histories.py.")
    if limit is not None and limit < 1:
        raise UserError(f"--limit is {limit}; it must be at least 1.")
    _check_together(kind, view, credit)
    if kind is PreferencePair:
        return Pairs(view.input_path, limit)
    credit_path = view.credit_path or (f"{view.page}.credit.jsonl" if credit is not None else None)

    def kept(path: str, credit_path: str | None) -> CreditFile | None:
        if credit is not None and credit_path is not None:
            write_credit(credit, read_records(path, cast(Any, kind), limit), path, credit_path, limit, view.overwrite)
        return None if credit_path is None else CreditFile(credit_path)

    def dialogues(path: str, own: CreditFile | None, candidates: Ranked | None = None) -> Dialogues:
        if pictures is None:
            return Dialogues(path, limit, own, candidates)
        return Designs(path, pictures, limit, own, candidates)

    first = kept(view.input_path, credit_path)
    if kind is TurnCandidates:
        return Candidates(Ranked(view.input_path, view.pair_path, limit, first))
    ranked = None if view.ranked_path is None else Ranked(view.ranked_path, view.pair_path)
    run = dialogues(view.input_path, first, ranked)
    if view.compare_path is None:
        return run
    second = None if credit is None else kept(view.compare_path, f"{credit_path}.compared")
    one, other = view.names or (Path(view.input_path).name, Path(view.compare_path).name)
    if one == other:
        one, other = str(view.input_path), str(view.compare_path)
    return Comparison(run, dialogues(view.compare_path, second), (one, other))


def _check_together(kind: type, view: ViewSettings, critic: ChosenCritic | None) -> None:
    held = {Trajectory: "trajectories", TurnCandidates: "candidates", PreferencePair: "pairs"}[kind]
    for flag, given, kinds in (
        ("--compare_path", view.compare_path, (Trajectory,)),
        ("--ranked_path", view.ranked_path, (Trajectory,)),
        ("--critic or --credit_path", critic or view.credit_path, (Trajectory, TurnCandidates)),
        ("--pair_path", view.pair_path, (Trajectory, TurnCandidates)),
    ):
        if given and kind not in kinds:
            raise UserError(f"{view.input_path} holds {held}: {flag} is not for them.")
    for flag, path, expected in (
        ("--compare_path", view.compare_path, Trajectory),
        ("--ranked_path", view.ranked_path, TurnCandidates),
        ("--pair_path", view.pair_path, PreferencePair),
    ):
        if path is not None and kind_of(path) is not expected:
            raise UserError(f"{flag} {path}: expected {expected.__name__} records, found {kind_of(path).__name__}.")
    if view.pair_path and kind is Trajectory and not view.ranked_path:
        raise UserError(
            "--pair_path shows which candidates were drawn: give --ranked_path, the ranked candidates, too."
        )
    if view.ranked_path and view.compare_path:
        raise UserError("--ranked_path and --compare_path cannot be shown together: give one of them.")
    if view.names is not None and (view.compare_path is None or len(view.names) != 2 or len(set(view.names)) != 2):
        raise UserError("--names are those of the two runs of --compare_path: give two different ones, name,name.")
