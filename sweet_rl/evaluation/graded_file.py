"""A file of graded trajectories and how they were graded: only runs on the same tasks, graded alike, are comparable."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory, TrajectoryFile, content_id
from sweet_rl.runs.manifest import check_finished, read_manifest

NOT_OF_THE_GRADER = {"num_tasks", "sandbox", "workers", "browser", "baseline", "seed", "k", "grade_references", "limit"}
COPIED = 0.95
NAMED_IN_ROWS = ("grader", "encoder")
# These differ also if only one of two files has them. Settings may have been lost with a manifest.
STRICT = {"kind", *NAMED_IN_ROWS}


@dataclass(frozen=True)
class GradedFile:
    """The graded trajectories of one seed of a run.

    Attributes:
        path: the file.
        trajectories: its trajectories, which may be without their texts (`Trajectory.light`).
        grader: how they were graded, by name: `kind` (code, page, or function), what the rows name (grader, encoder),
            and the settings in the manifest of the evaluation.
        dialogues: hash of each of its dialogues, whatever its id.
    """

    path: str
    trajectories: Sequence[Trajectory]
    grader: Mapping[str, object] = field(default_factory=dict)
    dialogues: Sequence[str] = ()

    @property
    def humans(self) -> list[str]:
        """The humans who replied in its dialogues (`Trajectory.human_label`), sorted."""
        return sorted({label for t in self.trajectories if (label := t.human_label) is not None})


def parse_runs(runs: dict | str) -> dict[str, list[str]]:
    """Files by run name. Raises UserError for a name without files and one given twice."""
    if isinstance(runs, str):
        items = [item.strip() for item in runs.split(",") if item.strip()]
        pairs = [item.partition("=") if "=" in item else (_run_name(item), "=", item) for item in items]
        entries = [(name.strip(), files.split("+")) for name, _, files in pairs]
    else:
        entries = [(str(name), [files] if isinstance(files, str) else list(files)) for name, files in runs.items()]
    parsed: dict[str, list[str]] = {}
    for name, files in entries:
        files = [file.strip() for file in files if file.strip()]
        if not name or not files or name in parsed:
            raise UserError(f"--runs: expected name=file[+file...] with each name once, found {name!r}: {files}.")
        parsed[name] = files
    if not parsed:
        raise UserError("--runs is empty; expected name=file[+file...], separated by commas.")
    return parsed


def read_graded(path: str) -> GradedFile:
    """Read a file of evaluate_code.py or evaluate_html.py.

    Raises:
        UserError: its rows were graded in different ways, it is unfinished or changed, or its manifest is damaged.
    """
    file, dialogues = TrajectoryFile(path), []

    def scan() -> Iterator[Trajectory]:
        for trajectory in file.scan():
            dialogues.append(_dialogue(trajectory))
            yield trajectory

    check_finished(path)
    manifest = read_manifest(path)
    grader = grader_of(path, scan(), manifest["settings"] if manifest else {})
    return GradedFile(path, file.light, grader, dialogues)


def check_seeds(runs: Mapping[str, Sequence[GradedFile]]) -> None:
    """Raise UserError if two files of a run hold the same dialogues, as `refuse_copies` counts them."""
    for files in runs.values():
        if len(files) > 1:
            refuse_copies([(file.path, file.dialogues) for file in files])


def refuse_copies(contents: Sequence[tuple[str, Iterable[str]]]) -> None:
    """Raise UserError if two files share COPIED of the shorter one's rows: they are copies or parts of one file.

    Seeds of an honest run may have a few short dialogues in common.

    Args:
        contents: (path, hashes of the rows) of each file, whatever the order of the rows.
    """
    counts = [(path, Counter(rows)) for path, rows in contents]
    for (one, rows), (other, others) in combinations(counts, 2):
        shared, fewest = (rows & others).total(), min(rows.total(), others.total())
        if shared >= COPIED * fewest:
            raise UserError(
                f"{one} and {other} hold the same, so they are one seed and not two ({shared} of {fewest} rows). Give "
                "each file once."
            )


def _dialogue(trajectory: Trajectory) -> str:
    said = [[message["role"], message["content"]] for message in trajectory.dialogue_history]
    return content_id([trajectory.task.id, trajectory.reward, trajectory.answer, said])


def grader_of(
    path: str, trajectories: Iterable[Trajectory], settings: Mapping[str, object] = MappingProxyType({})
) -> dict:
    """How the trajectories were graded, by their own fields and by the settings of their evaluation."""
    grader = {name: value for name, value in dict(settings).items() if name not in NOT_OF_THE_GRADER}
    for trajectory in trajectories:
        grade = trajectory.grade or {}
        kind = "page" if "similarity" in grade else "function" if "grader" in grade else "code"
        facts: dict = {"kind": kind} if grade else {}
        for name in NAMED_IN_ROWS:
            value = grade.get(name, trajectory.extra.get(name))
            if value is not None:
                facts[name] = value
        for name, value in facts.items():
            if grader.setdefault(name, value) != value:
                raise UserError(
                    f"{path}: rows with different {name}s, {grader[name]!r} and {value!r} ({trajectory.id}). "
                    "Evaluate all of the file in one way."
                )
    return grader


def check_comparable(runs: Mapping[str, Sequence[GradedFile]], mix_humans: bool = False) -> dict:
    """How all of the runs were graded.

    Args:
        runs: the files of each run by its name, one per seed.
        mix_humans: allow runs whose simulated humans differ.

    Raises:
        UserError: two files have different tasks, were graded differently or had different humans; the message names
            the difference.
    """
    if not mix_humans:
        _check_humans(runs)
    (first_name, first), *others = [(name, file) for name, files in runs.items() for file in files]
    tasks = {t.task.id: t.task for t in first.trajectories}
    for name, file in others:
        what = f"The runs {first_name!r} ({first.path}) and {name!r} ({file.path})"
        other = {t.task.id: t.task for t in file.trajectories}
        if odd := sorted(tasks.keys() ^ other.keys()):
            raise UserError(
                f"{what} are on different tasks: {len(odd)} are in only one of them, the first is {odd[0]}. Evaluate "
                "all on the same tasks file and --num_tasks."
            )
        changed = [key for key in sorted(tasks) if _content(tasks[key]) != _content(other[key])]
        if changed:
            raise UserError(
                f"{what} are on different tasks: {len(changed)} have the same id but another solution or other tests, "
                f"the first is {changed[0]}. Evaluate all on the same tasks file."
            )
        differing = {
            key: (first.grader.get(key, "(not given)"), file.grader.get(key, "(not given)"))
            for key in sorted(first.grader.keys() | file.grader.keys())
            if first.grader.get(key) != file.grader.get(key)
            and (key in STRICT or key in first.grader.keys() & file.grader.keys())
        }
        if differing:
            differences = "; ".join(f"{key}: {one} and {two}" for key, (one, two) in differing.items())
            raise UserError(f"{what} were graded differently ({differences}). Evaluate all in the same way.")
    return dict(first.grader)


def _check_humans(runs: Mapping[str, Sequence[GradedFile]]) -> None:
    found: dict[str, str] = {}
    for name, file in ((name, file) for name, files in runs.items() for file in files):
        for human in file.humans:
            found.setdefault(human, f"{name!r} ({file.path})")
    if len(found) > 1:
        known = "; ".join(f"{human} in {where}" for human, where in found.items())
        raise UserError(
            f"The dialogues were played with different simulated humans: {known}. Their figures cannot be compared: "
            "play all runs with one human, or give --mix_humans."
        )


def _content(task) -> str:
    return content_id([task.ground_truth, task.test_cases])


def _run_name(path: str) -> str:
    """The name of a run whose file has none: sweet.graded.jsonl is sweet."""
    return Path(path).name.removesuffix(".jsonl").removesuffix(".graded")
