"""The paper's critic of Frontend Design: a value head on a vision-language model that sees the reference page.

The value is a linear function of the mean representation of all visual and text tokens (the paper, appendix on
hyper-parameters). Values and loss are those of value.py; only what stands in front of the dialogue differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sweet_rl.dialogues.sibling_pairs import sibling_pairs
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.vision import VisionFormat, load_vision_weights, picture_batch
from sweet_rl.models.picture import open_picture
from sweet_rl.models.texts.released_texts import rendered
from sweet_rl.models.weights import check_length
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory
from sweet_rl.training.examples import DROPPED, EMPTY, EQUAL, NO_EOS, Examples, ends_open, successful
from sweet_rl.training.loop import Objective
from sweet_rl.training.reference_pages import PictureSettings, draw_pages, picture_file, pictures_folder
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, TrainingSettings, ValueSettings
from sweet_rl.training.value import value_preference_objective

NO_PICTURE = "whose reference page cannot be drawn, left out"


@dataclass
class PictureExamples(Examples):
    """Pairs of texts, each behind a picture.

    Attributes:
        pictures: the PNG file in front of each text.
    """

    pictures: list[Path] = field(default_factory=list)

    @property
    def prompts(self) -> list[bytes]:
        """The picture and the prompt of each pair's chosen text."""
        return [self.pictures[n].name.encode() + self.texts[n].prompt for n in self.rows[:, 0]]


def encode_picture_pairs(
    trajectories: Sequence[Trajectory],
    form: VisionFormat,
    folder: Path,
    min_gap: float,
    max_len: int | None,
    path: str,
    around: tuple[str, str],
) -> PictureExamples:
    """Pairs of siblings whose rewards are at least `min_gap` apart, with the pictures in `folder`.

    The dialogues are laid out again in the model's own chat format. Pairs whose reference page has no picture, pairs
    with a text in which the agent says nothing or of more than `max_len` tokens (those of the picture included), and
    pairs of equal texts are dropped and counted. `around` are the texts before and after a picture. Raises UserError if
    no pair is left.
    """
    texts: dict[tuple[str, bytes], tuple[int, EncodedText, Path]] = {}
    encoded: dict[str, EncodedText | None] = {}
    sizes: dict[Path, tuple[int, int]] = {}
    kept: list[list[int]] = []
    tasks: list[str | None] = []
    dropped: Counter[str] = Counter()
    seen = 0
    for pair in sibling_pairs(trajectories, min_gap):
        seen += 1
        picture = picture_file(folder, pair[0].task.ground_truth)
        if not picture.exists():
            dropped[NO_PICTURE] += 1
            continue
        if picture not in sizes:
            sizes[picture] = open_picture(picture.read_bytes()).size
        for trajectory in pair:
            if trajectory.id not in encoded:
                where = trajectory.place("trajectory", path)
                parts = rendered(trajectory, form.chat)
                silent = not any(form.chat.encode(parts, None, where)[1])
                encoded[trajectory.id] = None if silent else form.encode(parts, None, sizes[picture], where, around)
        both = [text for trajectory in pair if (text := encoded[trajectory.id]) is not None]
        if len(both) < 2:
            dropped[EMPTY] += 1
        elif max_len is not None and max(map(len, both)) > max_len:
            dropped[DROPPED] += 1
        elif both[0].key == both[1].key:
            dropped[EQUAL] += 1
        else:
            for trajectory, text in zip(pair, both, strict=True):
                place = trajectory.place("trajectory", path)
                check_length(len(text), form.chat.context, place, f"Give --max_len {form.chat.context}.")
            if ends_open(both, form.chat):
                dropped[NO_EOS] += 1
            places = [texts.setdefault((picture.name, text.key), (len(texts), text, picture)) for text in both]
            kept.append([place[0] for place in places])
            tasks.append(pair[0].task.id)
    if not kept:
        reasons = ", ".join(f"{count} {why}" for why, count in dropped.items())
        raise UserError(
            f"{path}: none of its {seen} pairs of siblings whose rewards are at least {min_gap} apart can be trained on"
            f"{f' ({reasons})' if reasons else ''}. evaluate_html.py grades it; several dialogues per task are needed."
        )
    _, found, pictures = zip(*texts.values(), strict=True)
    return PictureExamples(list(found), np.asarray(kept, dtype=np.int64), tasks, dropped, pictures=list(pictures))


def picture_objective(examples: PictureExamples, how: ValueSettings, form: VisionFormat) -> Objective:
    """Bradley-Terry on pairs, each text in a row of its own behind its picture."""

    def lay_out(numbers: np.ndarray) -> dict:
        pictures = [examples.pictures[n].read_bytes() for n in numbers]
        return picture_batch([examples.texts[n] for n in numbers], pictures, form, how.unit)

    return value_preference_objective(examples, how, lay_out)


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
        examples = encode_picture_pairs(graded, form, folder, pictures.min_gap, data.max_len, dataset, around)
        model = training.with_value_head(load_vision_weights(training.weights, training.dtype))
        split = training.split(examples)
        if training.is_first:
            form.save(save_path)
        counts = {"pairs": len(examples), "texts": len(examples.texts)}
        return training.fit(model, picture_objective(examples, how, form), examples, split, counts, form.chat)
