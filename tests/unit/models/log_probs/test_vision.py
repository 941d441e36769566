"""Dialogues behind a picture: their ids, and values against one plain pass per text."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from sweet_rl.models.log_probs.value_head import attach_value_head, turn_values
from sweet_rl.models.log_probs.vision import FAMILIES, VisionFormat, load_vision_weights, picture_batch, picture_values
from sweet_rl.runs.errors import UserError

Image = pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")

AROUND = ("Seen: ", ".")


def png(color: str, size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "PNG")
    return file.getvalue()


def dialogue(*said: str) -> list[dict]:
    rows = [{"role": "user", "content": "Build a page."}]
    for text in said:
        rows += [{"role": "assistant", "content": text, "output": text}, {"role": "user", "content": "Not yet."}]
    return rows[:-1]


def test_the_picture_stands_in_the_hint_with_one_placeholder_a_patch_group(tiny_vision):
    form = tiny_vision
    parts = form.chat.dialogue(dialogue("One.", "Two."))
    text = form.encode(parts, None, (84, 56), "here", AROUND)
    shown = form.chat.tokenizer.decode(text.ids)
    picture = "<|vision_start|>" + "<|image_pad|>" * 6 + "<|vision_end|>"  # 84 x 56 pixels are 3 x 2 tokens
    assert shown.startswith(f"Seen: {picture}.")
    assert form.chat.tokenizer.decode(text.ids[text.targets]) == "One.<|im_end|>Two.<|im_end|>"
    larger = form.encode(parts, None, (2000, 2000), "here", AROUND)
    assert (larger.ids == form.picture_token).sum() <= 12  # max_pixels


def test_values_are_those_of_the_head_on_the_mean_of_all_visual_and_text_tokens(tiny_vision_model, tiny_vision):
    form = tiny_vision
    model = attach_value_head(load_vision_weights(tiny_vision_model, torch.float64), seed=3).eval()
    pictures = [png("red", (84, 56)), png("blue", (28, 140)), png("red", (84, 56))]
    sizes = [(84, 56), (28, 140), (84, 56)]
    saids = [("A longer first draft.", "Two."), ("One.",), ("One.", "Two.", "Three.")]
    texts = [
        form.encode(form.chat.dialogue(dialogue(*said)), None, size, "here", AROUND)
        for said, size in zip(saids, sizes, strict=True)
    ]
    batch = picture_batch(texts, pictures, form)
    found = turn_values(model, batch)
    expected = []
    for text, picture in zip(texts, pictures, strict=True):
        ids = torch.from_numpy(text.ids)[None]
        hidden = model.model(input_ids=ids, **form.model_inputs([picture], ids)).last_hidden_state[0]
        for turn in range(text.turns[-1] + 1):
            end = text.targets[text.turns == turn][-1] + 1
            expected.append(model.value_head(hidden[:end].mean(0))[0])
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-8)
    last = picture_values(model, form, texts, pictures, token_budget=100)
    np.testing.assert_allclose(last, [expected[1].item(), expected[2].item(), expected[5].item()], atol=1e-8)
    swapped = picture_values(model, form, texts, [png("blue", (84, 56)), pictures[1], pictures[2]])
    assert abs(swapped[0] - last[0]) > 1e-6 and swapped[1:] == pytest.approx(last[1:], abs=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_candidates_of_a_turn_share_its_prompt_and_picture_and_nothing_else(family, tmp_path, monkeypatch):
    from tests.support.tiny_vision import save_tiny_vision_model

    path = save_tiny_vision_model(tmp_path, family=family)
    form = VisionFormat.from_pretrained(path)
    model = attach_value_head(load_vision_weights(path, torch.float64), seed=3).eval()
    red, blue = png("red", (84, 56)), png("blue", (84, 56))
    # Two tasks whose prompts have the same ids, for their pictures are equally large.
    pictures = [red, red, blue, red, blue]
    answers = ["One.", "A much longer page.", "One.", "Why?", "Two."]
    texts = [form.encode(form.chat.dialogue(dialogue(one)), None, (84, 56), "here", AROUND) for one in answers]
    expected = []
    for text, picture in zip(texts, pictures, strict=True):
        ids = torch.from_numpy(text.ids)[None]
        hidden = model.model(input_ids=ids, **form.model_inputs([picture], ids)).last_hidden_state[0]
        expected.append(model.value_head(hidden.mean(0)).item())
    drawn = []
    seen = form.model_inputs
    monkeypatch.setattr(form, "model_inputs", lambda shown, ids: drawn.extend(shown) or seen(shown, ids))
    np.testing.assert_allclose(picture_values(model, form, texts, pictures), expected, rtol=0, atol=1e-8)
    assert drawn == [red, blue]


def test_a_model_without_eyes_is_refused(tiny_chat_model):
    with pytest.raises(UserError, match="vision"):
        load_vision_weights(tiny_chat_model)
