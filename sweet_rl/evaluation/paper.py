"""The paper's figures, and what they were measured with: only where that is the same do they compare with a run's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sweet_rl.dialogues.frontend.encoders import CLIP
from sweet_rl.runs.errors import UserError

NOT_RECORDED = "not recorded"
RELEASED_RULES = "the released rules of grading"
PUBLISHED = {
    "success": f"protocol released, human meta-llama/Llama-3.1-70B-Instruct, {RELEASED_RULES}, 1,000 tasks",
    "similarity": f"protocol released, human Qwen/Qwen2-VL-72B-Instruct, {RELEASED_RULES}, encoder {CLIP}, 500 tasks",
}
"""What the paper's figures were measured with, by measure."""


def paper_results(path: str | Path, name: str) -> dict:
    """The entry `name` (table2, figure3a, ...) of a file of the paper's results: title, and rows or points.

    Raises:
        UserError: There is no such entry.
    """
    results = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if name not in results:
        raise UserError(f"--paper is {name!r}; it must be one of {', '.join(results)}.")
    return results[name]


def paper_lines(comparison: Mapping[str, Any]) -> list[str]:
    """Two lines that stand wherever the paper's figures do: what those were measured with, and what the runs were.

    What an older file of the comparison lacks is "not recorded".

    Args:
        comparison: What `compare` returns.

    Raises:
        UserError: The runs have figures that are on another scale than the paper's.
    """
    measure, grader = comparison["measure"], comparison.get("grader", {})
    if measure not in PUBLISHED:
        raise UserError(
            f"--paper: the paper has no figures of a domain that is graded by its own {measure}: leave it out."
        )
    rules = {True: RELEASED_RULES, False: "the rules of sweet_rl"}.get(grader.get("paper_grader"), NOT_RECORDED)
    here = [f"protocol {_values(comparison, 'protocols')}", f"human {_values(comparison, 'humans')}", rules]
    if measure == "similarity":
        encoder = grader.get("encoder") or grader.get("image_encoder") or NOT_RECORDED
        if not _is_clip(encoder):
            raise UserError(
                f"--paper: these similarities are by {encoder}, the paper's by CLIP ViT-B/32. That is another scale, "
                f"on which no figure of the paper says anything. Grade again (evaluate_html.py --image_encoder {CLIP}, "
                "or the folder clip-vit-base-patch32 with its weights), or leave out --paper."
            )
        here.append(f"encoder {encoder}")
    here.append(f"{comparison['tasks']:,} tasks" if "tasks" in comparison else f"tasks {NOT_RECORDED}")
    return [f"paper: {PUBLISHED[measure]}", f"here: {', '.join(here)}"]


def _values(comparison: Mapping[str, Any], field: str) -> str:
    values = {value for run in comparison["runs"] for value in run.get(field, [NOT_RECORDED])}
    return " and ".join(sorted(values)) or "none"


def _is_clip(encoder: str) -> bool:
    """Whether an encoder's name is that of CLIP ViT-B/32: from the hub, or a folder of this name; in any format."""
    return encoder.partition(" in ")[0].partition("@")[0].rpartition("/")[2] == CLIP.rpartition("/")[2]
