"""Pairs of siblings behind the picture of their reference page."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sweet_rl.method.privileged_information import AFTER, BEFORE
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from sweet_rl.training.examples import DROPPED, EQUAL
from sweet_rl.training.picture_value import NO_PICTURE, encode_picture_pairs, picture_objective
from sweet_rl.training.reference_pages import PictureSettings, draw_pages, picture_file, pictures_folder
from sweet_rl.training.settings import DataSettings, ValueSettings

pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
from tests.unit.models.log_probs.test_vision import dialogue, png  # noqa: E402


def graded(page: str, reward: float, said: str, sample: int) -> Trajectory:
    task = Task("Build a page.", page, id=f"task of {page}")
    return Trajectory(task, dialogue(said), answer="x", reward=reward, id=f"{page}-{sample}", ending="answered")


def folder_with(tmp_path: Path, **pages: str) -> Path:
    for page, color in pages.items():
        picture_file(tmp_path, page).write_bytes(png(color, (56, 56)))
    return tmp_path


def test_pairs_have_the_picture_of_their_page_and_equal_texts_behind_other_pictures_are_others(tiny_vision, tmp_path):
    form = tiny_vision
    folder = folder_with(tmp_path, one="red", two="blue")
    rows = [graded(page, reward, said, i) for page in ("one", "two") for i, (reward, said) in enumerate(
        [(0.9, "good"), (0.5, "bad"), (0.45, "worse")])]  # fmt: skip
    examples = encode_picture_pairs(rows, form, folder, 0.1, DataSettings(), "file", (BEFORE, AFTER))
    assert len(examples) == 4
    assert len(examples.texts) == len(examples.pictures) == 6
    for pair, page in zip(examples.rows, ("one", "one", "two", "two"), strict=True):
        assert {examples.pictures[n] for n in pair} == {picture_file(folder, page)}
        assert "good" in form.chat.tokenizer.decode(examples.texts[pair[0]].ids)
    assert form.chat.tokenizer.decode(examples.texts[0].ids).startswith("In light that the final answer is: <|vision_")
    assert len(set(examples.prompts)) == 2
    batch = picture_objective(examples, ValueSettings(), form).collate([0, 2])
    assert batch["items"] == 2 and batch["pairs"].tolist() == [[0, 1], [2, 3]]
    pixels = batch["model_inputs"]["pixel_values"].reshape(4, -1)
    assert torch.equal(pixels[0], pixels[1]) and not torch.equal(pixels[1], pixels[2])


def test_pairs_without_a_picture_too_long_or_of_equal_texts_are_dropped_and_counted(tiny_vision, tmp_path):
    form = tiny_vision
    folder = folder_with(tmp_path, one="red")
    rows = [graded("one", 0.9, "good", 0), graded("one", 0.5, "good", 1), graded("one", 0.1, "b" * 300, 2)]
    rows += [graded("none", 0.9, "good", 0), graded("none", 0.5, "bad", 1)]
    data = DataSettings(max_len=200)
    with pytest.raises(UserError, match=r"none of its 3 pairs.*\(1 chosen.*; 2 longer.*; 1 whose"):
        encode_picture_pairs(rows, form, folder, 0.1, data, "file", (BEFORE, AFTER))
    examples = encode_picture_pairs(
        [*rows[3:], *rows[:3], graded("one", 0.3, "bad", 3)],
        form,
        folder,
        0.1,
        DataSettings(max_len=200),
        "file",
        (BEFORE, AFTER),
    )
    assert examples.counts == {NO_PICTURE: 1, EQUAL: 1, DROPPED: 3} and len(examples) == 2


def test_pictures_are_kept_by_the_size_of_the_window_and_drawn_only_if_missing(tmp_path, monkeypatch):
    assert pictures_folder(PictureSettings(), "data.jsonl") == Path("data.jsonl.pages/1280x720")
    smaller = PictureSettings(page_width=800, page_height=600)
    assert pictures_folder(smaller, "data.jsonl") == Path("data.jsonl.pages/800x600")
    assert picture_file(tmp_path, "a") != picture_file(tmp_path, "b")
    monkeypatch.setattr("sweet_rl.rendering.renderer.PageRenderer", None)
    draw_pages(["one"], folder_with(tmp_path, one="red"), PictureSettings())
