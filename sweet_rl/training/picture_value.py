"""The paper's critic of Frontend Design: a value head on a vision-language model that sees the reference page.

The value is a linear function of the mean representation of all visual and text tokens (the paper, appendix on
hyper-parameters). Values and loss are those of value.py; only what stands in front of the dialogue differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from sweet_rl.dialogues.sibling_pairs import sibling_pairs
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.vision import VisionFormat, load_vision_weights, picture_batch
from sweet_rl.models.texts.released_texts import rendered
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory
from sweet_rl.training.examples import Examples, Row, encode, successful
from sweet_rl.training.loop import Objective
from sweet_rl.training.reference_pages import PictureSettings, draw_pages, picture_file, pictures_folder
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, TrainingSettings, ValueSettings
from sweet_rl.training.value import value_preference_objective

NO_PICTURE = "whose reference page cannot be drawn, left out"


def encode_picture_pairs(
    trajectories: Sequence[Trajectory],
    form: VisionFormat,
    folder: Path,
    min_gap: float,
    data: DataSettings,
    path: str,
    around: tuple[str, str],
) -> Examples:
    """Pairs of siblings whose rewards are at least `min_gap` apart, with the pictures in `folder`.

    The dialogues are laid out again in the model's own chat format. Pairs whose reference page has no picture are left
    out too. `max_len` counts the tokens of the picture. `around` are the texts before and after a picture. Raises
    UserError if no pair is left.
    """
    encoded: dict[str, EncodedText | None] = {}
    counts: Counter[str] = Counter()

    @cache
    def size(picture: Path) -> tuple[int, int]:
        from PIL import Image

        with Image.open(picture) as image:
            return image.size

    def rows() -> Iterator[Row]:
        for pair in sibling_pairs(trajectories, min_gap):
            picture = picture_file(folder, pair[0].task.ground_truth)
            if not picture.exists():
                counts[NO_PICTURE] += 1
                continue
            places = [trajectory.place("trajectory", path) for trajectory in pair]
            for trajectory, where in zip(pair, places, strict=True):
                if trajectory.id not in encoded:
                    parts = rendered(trajectory, form.chat)
                    silent = not any(form.chat.encode(parts, None, where)[1])
                    text = None if silent else form.encode(parts, None, size(picture), where, around)
                    encoded[trajectory.id] = text
            yield Row([encoded[one.id] for one in pair], places, picture=picture)

    what = f"pairs of siblings whose rewards are at least {min_gap} apart"
    return encode(rows(), form.chat, data, path, what, counts)


def picture_objective(examples: Examples, how: ValueSettings, form: VisionFormat) -> Objective:
    """Bradley-Terry on pairs, each text in a row of its own behind its picture."""

    def make_batch(numbers: np.ndarray) -> dict:
        pictures = [examples.pictures[n].read_bytes() for n in numbers]
        return picture_batch([examples.texts[n] for n in numbers], pictures, form)

    return value_preference_objective(examples, how, make_batch)


def train_picture_value(
    pretrain: str,
    dataset: str,
    save_path: str,
    how: ValueSettings,
    settings: TrainingSettings,
    data: DataSettings,
    pictures: PictureSettings,
    around: tuple[str, str],
    overwrite: bool = False,
) -> dict | None:
    """Train a vision-language model with a value head on pairs of siblings of graded frontend trajectories.

    `pictures` decides how their reference pages are drawn and which siblings make a pair; `around` are the texts before
    and after a picture. Other arguments, result and errors are those of `run.Training`.
    """
    if how.objective != "preference" or data.response_template or settings.lora_rank:
        raise UserError(
            "--reference_picture trains all weights on preferences and lays the dialogues out again: leave out "
            "--objective, --response_template and --lora_rank."
        )
    training = Training(pretrain, dataset, save_path, settings, data, overwrite)
    with training.opened(to_settings(how, pictures)) as unfinished:
        if not unfinished:
            return None
        form = VisionFormat.from_pretrained(training.weights, pictures.max_pixels)
        graded = successful(training.read(Trajectory), 0.0, dataset)
        folder = pictures_folder(pictures, dataset)
        with training.accelerator.main_process_first():
            draw_pages((t.task.ground_truth for t in graded), folder, pictures)
        examples = encode_picture_pairs(graded, form, folder, pictures.min_gap, data, dataset, around)
        model = training.with_value_head(load_vision_weights(training.weights, training.dtype))
        training.begin()
        if training.is_first:
            form.processor.save_pretrained(save_path)
        counts = {"pairs": len(examples), "texts": len(examples.texts)}
        return training.fit(model, picture_objective(examples, how, form), examples, counts, form.chat)
