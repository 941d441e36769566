"""The paper's critic of Frontend Design: a regression head on the mean representation of all visual and text tokens of
a vision-language model, which sees a picture of the reference page (PAPER, hyper-parameters).

A turn's value and the loss over pairs are those of value.py; only what stands in front of the dialogue is another.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory
from sweet_rl.rewards.evaluate import sibling_pairs
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.scoring.value_head import turn_values
from sweet_rl.scoring.vision import VisionFormat, opened, picture_batch
from sweet_rl.training.examples import DROPPED, EQUAL
from sweet_rl.training.trainer import GroupedTrainer
from sweet_rl.training.value import ValueObjective, preference_value_losses


@dataclass
class PictureExamples:
    """texts: the distinct dialogues; pictures: the PNG file in front of each. pairs: int64 [P, 2] (chosen, rejected);
    tasks: each pair's task. counts: what happened -> to how many pairs."""

    texts: list[EncodedText]
    pictures: list[Path]
    pairs: np.ndarray
    tasks: list[str]
    counts: Counter

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class ReferencePages:
    """The pictures of the reference pages, and what makes a pair.

    folder: where the pictures are kept, by the content of their pages. min_gap: how far apart the rewards of a pair
    are at least. max_pixels: a larger picture is shrunk to it (None: as the model says). browser, width, height,
    timeout: how pages are drawn.
    """

    folder: Path
    min_gap: float = 0.1
    max_pixels: int | None = None
    browser: str | None = None
    width: int = 1280
    height: int = 720
    timeout: float = 15.0

    def __post_init__(self) -> None:
        if self.min_gap <= 0:
            raise UserError(f"--min_gap is {self.min_gap}; it must be above 0.")
        if self.max_pixels is not None and self.max_pixels < 28 * 28:
            raise UserError(f"--max_pixels is {self.max_pixels}; it must be at least {28 * 28}.")

    def that_matter(self) -> dict[str, Any]:
        """What decides the weights that come out, for the manifest."""
        return {
            "reference_picture": True, "min_gap": self.min_gap, "max_pixels": self.max_pixels,
            "page_width": self.width, "page_height": self.height,
        }  # fmt: skip

    def draw(self, pages: Iterable[str]) -> None:
        """A PNG in the folder for each page that can be drawn; what is there is kept. Raises UserError without a
        browser, where one is needed."""
        missing = [page for page in dict.fromkeys(pages) if not picture_file(self.folder, page).exists()]
        if not missing:
            return
        from sweet_rl.rendering.renderer import PageRenderer

        self.folder.mkdir(parents=True, exist_ok=True)
        with PageRenderer(2, self.browser, self.width, self.height, timeout=self.timeout, cache=0) as renderer:
            drawn = renderer.render_all(missing)
            for page, rendered in tqdm(zip(missing, drawn, strict=True), total=len(missing), desc="reference pages"):
                if rendered.png is not None:
                    partial = picture_file(self.folder, page).with_suffix(".partial")
                    partial.write_bytes(rendered.png)
                    partial.replace(picture_file(self.folder, page))


def picture_file(folder: Path, page: str) -> Path:
    """Where the picture of a page is kept."""
    return folder / f"{hashlib.sha256(page.encode('utf-8', 'surrogatepass')).hexdigest()}.png"


def encode_picture_pairs(
    trajectories: Sequence[Trajectory], form: VisionFormat, folder: Path, min_gap: float, max_len: int | None, path: str
) -> PictureExamples:
    """Pairs of siblings whose rewards are at least `min_gap` apart, with the pictures that `folder` holds.

    The dialogues are laid out anew in the model's own chat format. Pairs whose reference page has no picture, with a
    text of more than `max_len` tokens (the picture's counted), or of equal texts are dropped and counted.
    Raises UserError if no pair is left.
    """
    texts: list[EncodedText] = []
    pictures: list[Path] = []
    known: dict[tuple[str, bytes], int] = {}
    encoded: dict[str, EncodedText] = {}
    kept, tasks, dropped, seen = [], [], Counter(), 0
    sizes: dict[Path, tuple[int, int]] = {}

    def number(trajectory: Trajectory, picture: Path) -> int:
        key = (picture.name, encoded[trajectory.id].key)
        if key not in known:
            known[key] = len(texts)
            texts.append(encoded[trajectory.id])
            pictures.append(picture)
        return known[key]

    for pair in sibling_pairs(trajectories, min_gap):
        seen += 1
        picture = picture_file(folder, pair[0].task.ground_truth)
        if not picture.exists():
            dropped["whose reference page cannot be drawn, left out"] += 1
            continue
        if picture not in sizes:
            sizes[picture] = opened(picture.read_bytes()).size
        for trajectory in pair:
            if trajectory.id not in encoded:
                where = f"{path}, trajectory {trajectory.id!r}"
                encoded[trajectory.id] = form.encode(_parts(trajectory, form), None, sizes[picture], where)
        chosen, rejected = (encoded[trajectory.id] for trajectory in pair)
        if max_len is not None and max(len(chosen), len(rejected)) > max_len:
            dropped[DROPPED] += 1
        elif chosen.key == rejected.key:
            dropped[EQUAL] += 1
        else:
            kept.append([number(trajectory, picture) for trajectory in pair])
            tasks.append(pair[0].task.id)
    if not kept:
        reasons = ", ".join(f"{count} {why}" for why, count in dropped.items())
        raise UserError(
            f"{path}: none of its {seen} pairs of siblings whose rewards are at least {min_gap} apart can be trained on"
            f"{f' ({reasons})' if reasons else ''}. evaluate_html.py grades it; several dialogues a task are needed."
        )
    return PictureExamples(texts, pictures, np.asarray(kept, dtype=np.int64), tasks, dropped)


def _parts(trajectory: Trajectory, form: VisionFormat) -> list:
    history = trajectory.dialogue_history
    last = max(i for i, message in enumerate(history) if message["role"] == "assistant")
    return form.chat.dialogue(history[: last + 1], trajectory.tokenizer)


class PictureValueTrainer(GroupedTrainer):
    """Trains a vision-language model with a value head on pairs."""

    def __init__(
        self, model, args, examples: PictureExamples, how: ValueObjective, form: VisionFormat,
        train: np.ndarray, evaluation: np.ndarray, together: int = 4,
    ):  # fmt: skip
        self.beta = how.beta

        def collate(indices: list[int]) -> dict[str, Any]:
            pairs = examples.pairs[indices]
            numbers, local = np.unique(pairs, return_inverse=True)
            pictures = [examples.pictures[n].read_bytes() for n in numbers]
            batch = picture_batch([examples.texts[n] for n in numbers], pictures, form, how.unit)
            return batch | {"pairs": torch.from_numpy(local.reshape(pairs.shape))}

        prompts = [
            examples.pictures[chosen].name.encode() + examples.texts[chosen].prompt for chosen, _ in examples.pairs
        ]
        lengths = [max(len(examples.texts[n]) for n in pair) for pair in examples.pairs]
        super().__init__(model, args, train, evaluation, prompts, lengths, collate, form.chat, together)

    def items(self, batch: dict) -> int:
        return len(batch["pairs"])

    def outputs(self, model, batch: dict) -> torch.Tensor:
        return turn_values(model, batch)

    def losses(self, values: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return preference_value_losses(values, batch["value_text"], len(batch["starts"]), batch["pairs"], self.beta)
