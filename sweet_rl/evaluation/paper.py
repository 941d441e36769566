"""The paper's figures, and what they were measured with: they compare with a run where protocol, human, grader and
encoder are the same, on as many tasks. What is not the same is named wherever they are shown.

The runs come as `Comparison.to_dict()`, called `found`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.frontend.encoders import CLIP
from sweet_rl.runs.cli.values import read_yaml
from sweet_rl.runs.errors import UserError

NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Published:
    """What the paper's figures of one domain were measured with, besides the released protocol.

    Attributes:
        human: Model that played the human.
        rules: The released rules of grading, in words.
        script: Script that grades by them.
        tasks: Number of tasks.
        encoder: Encoder of pictures, in a domain that draws pages.
    """

    human: str
    rules: str
    script: str
    tasks: int
    encoder: str | None = None


PUBLISHED = {
    "success": Published(
        "meta-llama/Llama-3.1-70B-Instruct", "the released rules of grading", "evaluate_code.py", tasks=1000
    ),
    "similarity": Published(
        "Qwen/Qwen2-VL-72B-Instruct",
        "an answer without a picture graded as a black square",
        "evaluate_html.py",
        tasks=500,
        encoder=CLIP,
    ),
}


def paper_results(path: str | Path, name: str) -> dict:
    """The entry `name` (table2, figure3a, ...) of a file of the paper's results: title, and rows or points.

    Raises:
        UserError: there is no such entry.
    """
    results = read_yaml(Path(path).read_text(encoding="utf-8"))
    if name not in results:
        raise UserError(f"--paper is {name!r}; it must be one of {', '.join(results)}.")
    return results[name]


def check_paper(found: Mapping[str, Any]) -> None:
    """Raise UserError if runs have figures that are on another scale than the paper's."""
    if found["measure"] not in PUBLISHED:
        raise UserError(
            f"--paper: the paper has no figures of a domain that is graded by its own {found['measure']}: leave it out."
        )
    encoder = _encoder(found)
    if found["measure"] == "similarity" and not _is_clip(encoder):
        raise UserError(
            f"--paper: these similarities are by {encoder}, the paper's by CLIP ViT-B/32. That is another scale, on "
            f"which no figure of the paper says anything. Grade again (evaluate_html.py --image_encoder {CLIP}, or the "
            "folder clip-vit-base-patch32 with its weights), or leave out --paper."
        )


def differences_from_paper(found: Mapping[str, Any]) -> dict[str, str]:
    """What is not as in the paper, by its name: what it is here, and how to have it as there.

    What an older file of the comparison lacks is "not recorded".
    """
    there, different = PUBLISHED[found["measure"]], {}
    protocols = _by_run(found, "protocols", lambda name: name == "released")
    if protocols:
        different["protocol"] = f"{protocols} (simulate_interactions.py --protocol released)"
    humans = _by_run(found, "humans", lambda label: _same_model(label.rpartition(" (")[0], there.human))
    if humans:
        different["human"] = humans
    released = found.get("grader", {}).get("paper_grader")
    if released is not True:
        rules = NOT_RECORDED if released is None else "the rules of sweet_rl"
        different["grader"] = f"{rules} ({there.script} --paper_grader)"
    if there.encoder is not None and _encoder(found) != there.encoder:
        different["encoder"] = _encoder(found)
    if found.get("tasks") != there.tasks:
        different["number of tasks"] = f"{found['tasks']:,}" if "tasks" in found else NOT_RECORDED
    return different


def paper_lines(found: Mapping[str, Any]) -> list[str]:
    """What stands under a table with the paper's rows: what they are with, and one line for each difference."""
    there, different = PUBLISHED[found["measure"]], differences_from_paper(found)
    encoder = "" if there.encoder is None else f", the encoder {there.encoder}"
    known = (
        f"The paper's rows are with the released protocol, the human {there.human}, {there.rules}{encoder} and "
        f"{there.tasks:,} tasks"
    )
    if different:
        return [f"{known}. Not the same here:", *(f"- {name}: {here}" for name, here in different.items())]
    others = "models, sampling, trainings" if there.encoder is None else "models, sampling, trainings, browser"
    return [f"{known}. All of these are the same here; nothing else is compared ({others})."]


def paper_label(found: Mapping[str, Any]) -> str:
    """What the paper's figures are called in a figure, with the names of the differences.

    Raises:
        UserError: As `check_paper`.
    """
    check_paper(found)
    different = ", ".join(differences_from_paper(found))
    return f"the paper (its own models{f'; not the same here: {different}' if different else ''})"


def _by_run(found: Mapping[str, Any], field: str, same: Any) -> str:
    """The values of a field that are not as in the paper, with the names of their runs unless all runs have the same.

    A run without a value, such as one in which no human replied, is none of them.
    """
    runs: dict[str, list[str]] = {}
    for run in found["runs"]:
        for value in run.get(field, [NOT_RECORDED]):
            if not same(value):
                runs.setdefault(value, []).append(run["name"])
    if len(runs) == 1 and len(*runs.values()) == sum(bool(run.get(field, True)) for run in found["runs"]):
        return next(iter(runs))
    return ", ".join(f"{value} in {'; '.join(names)}" for value, names in runs.items())


def _encoder(found: Mapping[str, Any]) -> str:
    grader = found.get("grader", {})
    return grader.get("encoder") or grader.get("image_encoder") or NOT_RECORDED


def _is_clip(encoder: str) -> bool:
    """Whether an encoder's name is that of CLIP ViT-B/32: from the hub, or a folder of this name; in any format."""
    return encoder.partition(" in ")[0].partition("@")[0].rpartition("/")[2] == CLIP.rpartition("/")[2]


def _same_model(name: str, other: str) -> bool:
    """Whether two names of models have the same last part; servers and folders change the others."""
    return name.rpartition("/")[2].lower() == other.rpartition("/")[2].lower()
