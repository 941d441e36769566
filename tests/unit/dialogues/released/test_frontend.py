"""How a picture of the released frontend is sent depends on the name of the human's model, also behind a cache."""

import pytest

from sweet_rl.dialogues.released.frontend import ReleasedPageHuman
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings


@pytest.mark.parametrize(("name", "kind"), [("gpt-4o", "image/jpeg"), ("Qwen/Qwen2-VL-72B-Instruct", "image")])
@pytest.mark.parametrize("kept", [None, "known"])
def test_the_kind_of_a_picture_is_that_of_the_models_name(tmp_path, name, kind, kept):
    cache = None if kept is None else CallCache(tmp_path / "calls")
    model = load_model(name, ModelSettings(hostname="localhost:1", tokenizer=None), cache=cache)
    human = ReleasedPageHuman(model, "", sentences=("", "", ""), renderer=None)
    assert human._picture(b"png")["image_url"]["url"] == f"data:{kind};base64,cG5n"
