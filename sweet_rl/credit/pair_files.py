"""Files of trajectory pairs, written from a file of graded dialogues."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.credit.trajectory_pairs import trajectory_pairs
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory
from sweet_rl.runs.run import open_run
from sweet_rl.scoring.trajectory_parts import trajectory_parts


def check_apart(source: str, *outputs: str | None) -> None:
    """Raises UserError where an output is also the input, or another output."""
    seen = {os.path.realpath(source): "the input"}
    for path in outputs:
        if path is None:
            continue
        real = str(Path(path).resolve())
        if real in seen:
            raise UserError(f"{path} is also {seen[real]}: choose another output path, so that nothing is lost.")
        seen[real] = "another output"


def check_texts(trajectories: Sequence[Trajectory], texts: dict) -> None:
    """Raises UserError, before hours of grading, if the text of the first dialogue cannot be had.

    texts: chat, response_template, eos_text and bos_text, as `trajectory_pairs` takes them.
    """
    for trajectory in trajectories:
        if any(message["role"] == "assistant" for message in trajectory.dialogue_history):
            trajectory_parts(trajectory, **texts)
            return


def write_pairs(
    path: str,
    graded_path: str,
    graded: Sequence[Trajectory],
    hint: bool,
    texts: dict,
    overwrite: bool,
    min_gap: float | None = None,
) -> None:
    """Writes the pairs of `graded`, the content of `graded_path`, and says how many; continued where it stopped."""
    chat = texts["chat"]
    settings = {**texts, "chat": chat and chat.fingerprint, "hint": hint}
    if min_gap is not None:
        settings["min_gap"] = min_gap
    with open_run(path, settings, [graded_path], overwrite) as output:
        if not output.complete:
            for pair in trajectory_pairs(graded, hint, **texts, min_gap=min_gap):
                if pair.id not in output.done:
                    output.write(pair.to_dict())
            output.finish({"pairs": len(output.done)})
        kind = "with the reference solution" if hint else "without the reference solution"
        print(f"{path}: {len(output.done)} trajectory pairs {kind}")
