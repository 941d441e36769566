"""A run folder: the outputs of its steps, its tables of results, its trainings, and what is missing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweet_rl.evaluation.compare import compare
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, read_manifest

METHODS = {"zero_shot": "zero-shot", "rft": "rejection fine-tuning", "dpo": "multi-turn DPO", "sweet": "SWEET-RL"}
UNTRAINED = METHODS["zero_shot"]
TABLES = {
    "table2": "Table 2: the methods",
    "table3": "Table 3: the critic",
    "table4": "Table 4: a stronger agent from a weaker one's dialogues",
    "figure3a": "Figure 3a: the best of N candidates at every turn",
    "figure3b": "Figure 3b: the number of dialogues",
}
"""Comparisons that dodo.py writes, with their titles."""
BESIDE_FILE = ".manifest.json"
GRADED = ".graded.jsonl"


@dataclass(frozen=True)
class Step:
    """A step of the recipes: number in docs/tutorial.md (none for a baseline), output, names of outputs, script."""

    number: str
    what: str
    names: str
    script: str


WALK = (
    Step("8", "dialogues of an agent on the test tasks", r".+\.test(\.\d+-of-\d+)?\.jsonl", "simulate_interactions"),
    Step("8", "the same dialogues, graded", r".+\.graded\.jsonl", "evaluate_code"),
    Step("0", "tasks: description, reference solution, hidden tests", r"(train|test)\.jsonl", "make_mini_tasks"),
    Step("1", "dialogues of the untrained agent with the human", r"trajectories\S*", "simulate_interactions"),
    Step("2", "the same dialogues with their rewards", r"rewarded\S*", "evaluate_code"),
    Step("2", "the best dialogue of each task", r"best\.jsonl", "evaluate_html"),
    Step("2", "pairs of dialogues, the better one chosen", r"pairs\.jsonl", "evaluate_code"),
    Step("2", "the same pairs with the reference solution, for the critic", r"pairs_with_c\.jsonl", "evaluate_code"),
    Step("", "agent that imitates the dialogues that succeeded", r"rft", "train_sft"),
    Step("", "agent trained by multi-turn DPO on pairs of dialogues", r"dpo", "train_dpo"),
    Step("3", "critic: scores a turn, knowing the reference solution", r"critic\w*|value_function", "train_dpo"),
    Step("4", "candidates: what else the agent could have said", r"candidates\S*", "sample_best_of_n"),
    Step("5", "candidates in the order of the critic", r"ranked\S*", "rank_best_of_n"),
    Step("6", "pairs of turns, the better one chosen", r"turn_pairs\S*", "generate_random_pairs_from_ranks"),
    Step("7", "agent of SWEET-RL, trained on pairs of turns", r"sweet\w*", "train_dpo"),
)
NEEDED = ("rewarded.jsonl", "rft", "dpo", "critic", "candidates.jsonl", "ranked.jsonl", "turn_pairs.jsonl", "sweet")
"""Outputs of every recipe, in its order; before the evaluation."""


@dataclass(frozen=True)
class Output:
    """A file or model of the folder with its manifest."""

    path: Path
    name: str
    manifest: Mapping[str, Any]

    @property
    def finished(self) -> bool:
        return self.manifest["status"] == "finished"

    @property
    def step(self) -> Step | None:
        """The step that writes outputs of this name; None for a name that no recipe uses."""
        return step_of(self.path.name)

    @property
    def command(self) -> str | None:
        """The command that made it, on one line, if the manifest names it."""
        command = self.manifest.get("command")
        if not isinstance(command, str):
            return None
        return "".join(character if character.isprintable() else "\ufffd" for character in command)

    @property
    def log(self) -> list[dict]:
        """The lines of the log of a training: {step, loss, accuracy?, eval_loss?, ...}; of anything else none."""
        path = self.path / "training_log.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


class RunFolder:
    """What a folder of a recipe (run_mini.sh, run_backend.sh, dodo.py) holds. Nothing in it is changed.

    Args:
        folder: Folder that the recipe calls OUT.

    Raises:
        UserError: The folder has no output of a step, or a manifest in it is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        if not self.path.is_dir():
            raise UserError(f"--folder {folder} is no folder. Give the one that run_mini.sh or another recipe wrote.")
        found = sorted(self._outputs(), key=lambda output: (output.manifest.get("started", ""), output.name))
        self.outputs = {output.name: output for output in found}
        places = {self.path, self.path / "tasks", *self.seeds}
        if not any(output.path.parent in places for output in found):
            hint = f" There is one in {self.path / found[0].name.split('/')[0]}." if found else ""
            raise UserError(f"{folder} holds no run: no output of a step with its manifest is in it.{hint}")

    def _outputs(self) -> Iterator[Output]:
        for pattern in ("", "*/", "*/*/", "*/*/*/"):  # deeper ones are those of checkpoints
            for path in self.path.glob(f"{pattern}*{BESIDE_FILE}"):
                yield from self._output(path.with_name(path.name.removesuffix(BESIDE_FILE)))
            for path in self.path.glob(f"{pattern}*/{DIRECTORY_MANIFEST}"):
                yield from self._output(path.parent)

    def _output(self, path: Path) -> Iterator[Output]:
        manifest = read_manifest(path) if path.exists() else None
        if manifest is not None:
            yield Output(path, path.relative_to(self.path).as_posix(), manifest)

    @cached_property
    def seeds(self) -> list[Path]:
        """The folders of the seeds of dodo.py, or the folder itself."""
        return sorted(self.path.glob("seed[0-9]*"), key=lambda path: (len(path.name), path.name)) or [self.path]

    @cached_property
    def own(self) -> dict[str, Output]:
        """The outputs of the first seed by name: what it trained and played is shown."""
        return {out.path.name: out for out in self.outputs.values() if out.path.parent == self.seeds[0]}

    @property
    def trainings(self) -> list[Output]:
        """The models of the first seed, trained or in training, in the order in which they were started."""
        return [output for output in self.own.values() if "learning_rate" in output.manifest["settings"]]

    @cached_property
    def tables(self) -> dict[str, dict]:
        """Comparisons by title, as `compare` returns them, with `files`; made from the graded files if there are none.

        Raises:
            UserError: A table that compare_runs.py did not write, or graded files that cannot be compared.
        """
        names = {"Results": "results.json"}
        names |= {title: f"results/{name}.json" for name, title in TABLES.items()}
        paths = {title: self.path / name for title, name in names.items()}
        tables = {title: read_table(path) for title, path in paths.items() if path.is_file()}
        runs = self._graded()
        if not tables and runs:
            baselines = [name for name in (UNTRAINED, METHODS["dpo"]) if name in runs]
            files = {name: [read_graded(str(path)) for path in paths] for name, paths in runs.items()}
            made = compare(files, baselines)
            tables = {"Results": made | {"files": {name: list(map(str, paths)) for name, paths in runs.items()}}}
        for table in tables.values():
            table["files"] = {name: self._inside(paths) for name, paths in table["files"].items()}
        return tables

    def _graded(self) -> dict[str, list[Path]]:
        """Finished graded files of the recipe by name of the run, one per seed; the untrained agent's first."""
        runs: dict[str, list[Path]] = {}
        for seed in self.seeds:
            for path in sorted(seed.glob(f"*{GRADED}")):
                output = self.outputs.get(path.relative_to(self.path).as_posix())
                if output is not None and output.finished:
                    stem = path.name.removesuffix(GRADED)
                    runs.setdefault(METHODS.get(stem, stem), []).append(path)
        order = list(METHODS.values())
        return dict(sorted(runs.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))

    def _inside(self, paths: list[str]) -> list[str]:
        """The files below the folder, wherever it was when the table was made. Files elsewhere are not read."""
        root, found = self.path.resolve(), []
        for parts in (Path(path).parts for path in paths):
            tails = (self.path.joinpath(*parts[start:]) for start in range(len(parts)))
            found += [next((str(path) for path in tails if path.resolve().is_relative_to(root) and path.is_file()), "")]
        return list(filter(None, found))

    @cached_property
    def missing(self) -> list[tuple[str, str, str]]:
        """(number, what, script) of each step of the recipe without a finished output, in order; for the first seed."""
        names = list(NEEDED) if "rewarded.jsonl" in self.own else ["trajectories.jsonl", *NEEDED]
        finished = {name for name, output in self.own.items() if output.finished}
        steps = [step for name in names if name not in finished and (step := step_of(name))]
        found = [(step.number, step.what, step.script) for step in steps]
        graded = sum(name.endswith(GRADED) for name in finished)
        if graded < len(METHODS):
            found.append(("8", f"graded test dialogues of {len(METHODS)} agents ({graded} so far)", "evaluate_code"))
        if not (self.path / "results.json").is_file() and not (self.path / "results").is_dir():
            found.append(("8", "the comparison of the agents", "compare_runs"))
        return found


def step_of(name: str) -> Step | None:
    """The step of the recipes that writes outputs of this name."""
    return next((step for step in WALK if re.fullmatch(step.names, name)), None)


def read_table(path: Path) -> dict:
    """A comparison as compare_runs.py writes it. Raises UserError if the file holds something else."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        numbers = [table["tasks"]]
        for run in table["runs"]:
            gaps = run["difference_to"].values()
            estimates = [run[table["measure"]], *filter(None, [run.get("tests_passed")]), *gaps]
            numbers += [run["seeds"], run["turns"], run["tokens"] or 0, *(gap["p_holm"] for gap in gaps)]
            numbers += [estimate[key] for estimate in estimates for key in ("mean", "low", "high")]
        texts = [run["name"] for run in table["runs"]] + table["baselines"]
        if not texts or not all(text in table["files"] for text in texts) or not all(map(math.isfinite, numbers)):
            raise ValueError("no runs, or runs without files or figures")
        return table
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a table of compare_runs.py ({error!r}). Make it anew, or remove it.") from error
