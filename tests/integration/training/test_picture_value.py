"""The frontend critic on a real, tiny Qwen2-VL: values of plain passes, learning that needs the picture, ranking."""

from __future__ import annotations

import json

import pytest

from sweet_rl.models.log_probs.value_head import load_value_model
from sweet_rl.models.log_probs.vision import VisionFormat, is_vision_model, load_vision_frozen
from sweet_rl.runs.records import Task, Trajectory, TurnCandidates, read_records
from sweet_rl.training.reference_pages import PictureSettings, draw_pages, picture_file
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import call, write_rows

pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
COLORS = {"red": "#e01010", "blue": "#1020e0"}


def dialogue(*said: str) -> list[dict]:
    rows = [{"role": "user", "content": "Build a page."}]
    for text in said:
        rows += [{"role": "assistant", "content": text, "output": text}, {"role": "user", "content": "Not yet."}]
    return rows[:-1]


def page(color: str, number: int) -> str:
    return f"<html><body style='background:{COLORS[color]}'><p style='color:white'>{number}</p></body></html>"


def graded(number: int, color: str) -> list[dict]:
    """Two siblings: who names the page's colour is right. Without the picture there is no telling."""
    task = Task(f"A page, number {number}.", page(color, number))
    rows = []
    for sample, said in enumerate(COLORS):
        own = dialogue(f"It is all {said}.")
        reward = 0.9 if said == color else 0.4
        trajectory = Trajectory(task, own, answer="x", reward=reward, id=f"{task.id}-{sample}", ending="answered")
        rows.append(trajectory.to_dict() | {"grade": {"failure": None, "similarity": reward, "encoder": "e"}})
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rows = [row for number in range(2) for color in COLORS for row in graded(number, color)]
    return write_rows(tmp_path_factory.mktemp("data") / "graded.jsonl", rows)


@pytest.fixture(scope="module")
def trained(tiny_vision_model, data, tmp_path_factory):
    renderer_or_skip().close()
    out = tmp_path_factory.mktemp("critic") / "out"
    flags = dict(
        pretrain=tiny_vision_model, dataset=data, save_path=out, reference_picture=True, browser_workers=1,
        page_timeout=120, max_pixels=6 * 28 * 28, learning_rate=2e-2, max_epochs=20, train_batch_size=4,
        logging_steps=1,
    )  # fmt: skip
    return out, flags, call("train_value.py", **flags)


@pytest.mark.slow
def test_it_learns_what_only_the_picture_tells_and_is_saved_whole(trained):
    out, flags, result = trained
    assert result.code == 0, result.err
    lines = [json.loads(line) for line in open(out / "training_log.jsonl")]
    # Each reply is right for one picture and wrong for the other: without the picture half of the pairs stay wrong.
    assert lines[-1]["accuracy"] == 1 and lines[-1]["loss"] < 0.85 * lines[0]["loss"]
    assert is_vision_model(str(out))
    assert VisionFormat.from_pretrained(str(out)).processor.size["longest_edge"] == 6 * 28 * 28
    load_value_model(str(out), device="cpu", load=load_vision_frozen)
    again = call("train_value.py", **flags)
    assert again.code == 0 and "already complete" in again.out
    other = call("train_value.py", **{**flags, "max_pixels": 28 * 28})
    assert other.code == 2 and "max_pixels" in other.err


@pytest.mark.slow
def test_it_ranks_candidates_of_another_models_agent_by_the_picture_of_their_page(trained, tiny_chat, tmp_path):
    opening = [{"role": "user", "content": "Build a page."}]
    records = [
        TurnCandidates(
            input=tiny_chat.prompt(opening), older_output="?", id=f"{color}-{number}",
            additional_outputs=["It is all red.", "It is all blue."], additional_finish_reasons=["stop", "stop"],
            task=Task(f"A page, number {number}.", page(color, number)), turn=0,
            dialogue=opening, eos_text=tiny_chat.eos_text,
        )
        for color in COLORS
        for number in (1, 2)
    ]  # fmt: skip
    source = write_rows(tmp_path / "candidates.jsonl", [record.to_dict() for record in records])
    flags = dict(model_id=trained[0], critic_type="value", input_path=source, output_path=tmp_path / "ranked.jsonl")
    result = call("rank_best_of_n.py", **flags)
    assert result.code == 0, result.err
    ranked = read_records(tmp_path / "ranked.jsonl", TurnCandidates)
    assert [record.judge_result[0] for record in ranked] == [0, 0, 1, 1]
    assert ranked[0].eos_text == tiny_chat.eos_text
    assert (
        call(
            "rank_best_of_n.py", critic_settings='{"no_prompt": true}', **{**flags, "output_path": tmp_path / "other"}
        ).code
        == 2
    )


@pytest.mark.slow
def test_reference_pages_are_drawn_in_the_window_that_the_settings_name(tmp_path):
    renderer_or_skip().close()
    draw_pages([page("red", 1)], tmp_path, PictureSettings(page_width=320, page_height=200, page_timeout=120))
    from PIL import Image

    assert Image.open(picture_file(tmp_path, page("red", 1))).size == (320, 200)
