"""Image encoders: real vision models of transformers with random weights, and the packaged one."""

import io
from http.server import ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
import torch

from sweet_rl.dialogues.frontend import encoders
from sweet_rl.dialogues.frontend.encoders import CLIP, ImageEncoder, load_encoder
from sweet_rl.runs.errors import UserError
from tests.support.http_handler import ReplyHandler

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


def save(folder, family: str) -> str:
    torch.manual_seed(0)
    if family in ("clip", "siglip"):
        text = dict(
            hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, vocab_size=40,
            eos_token_id=2, bos_token_id=1, pad_token_id=1, projection_dim=12,
        )  # fmt: skip
        config = transformers.AutoConfig.for_model(
            family, text_config=text, vision_config=TINY | {"projection_dim": 12}, projection_dim=12
        )
    else:
        config = transformers.AutoConfig.for_model(family, **TINY)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("family", ["clip", "siglip", "dinov2", "vit"])
def test_a_hugging_face_model_gives_its_own_features(tmp_path, family):
    folder = save(tmp_path / family, family)
    encoder = load_encoder(folder, device="cpu")
    vectors = encoder.embed(PICTURES)
    model = transformers.AutoModel.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in PICTURES]
    with torch.no_grad():
        pixels = processor(images=images, return_tensors="pt")["pixel_values"]
        if family in ("clip", "siglip"):
            plain = model.get_image_features(pixel_values=pixels).pooler_output
        else:
            plain = model(pixel_values=pixels).pooler_output
    plain = torch.nn.functional.normalize(plain, dim=-1).numpy()
    np.testing.assert_allclose(vectors, plain, atol=1e-5)
    assert encoder.name.startswith(f"{family}@") and vectors.dtype == np.float32


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_vector_without_a_direction_is_an_error_and_no_similarity_of_0(value):
    rows = iter([[1.0, 2.0], [1.0, value], [0.0, value]])
    encoder = ImageEncoder("e", lambda images: torch.tensor([next(rows) for _ in images]), 3, "e")
    with pytest.raises(UserError, match="the image encoder e gave a picture a vector of length"):
        encoder.embed(PICTURES)


def test_a_pooler_that_has_no_weights_is_not_used(tmp_path):
    folder = save(tmp_path / "vit", "vit")
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.ViTForImageClassification(config).save_pretrained(folder)  # as hub classifiers: no pooler inside
    first, second = (load_encoder(folder, device="cpu").embed(PICTURES) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    model = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in PICTURES]
    with torch.no_grad():
        states = model(**processor(images=images, return_tensors="pt")).last_hidden_state
    classes = torch.nn.functional.normalize(states[:, 0], dim=-1)  # that of the class token, which stands first
    np.testing.assert_allclose(first, classes.numpy(), atol=1e-5)


def test_a_model_whose_weights_are_missing_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save(tmp_path / "dinov2", "dinov2")
    weights = load_file(f"{folder}/model.safetensors")
    save_file({k: v for k, v in weights.items() if "layer.1" not in k}, f"{folder}/model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="would be random"):
        load_encoder(folder, device="cpu")


def test_a_picture_has_the_same_vector_whatever_it_is_embedded_with(tmp_path):
    folder = save(tmp_path / "clip", "clip")
    encoder, batched = (load_encoder(folder, device="cpu") for _ in range(2))
    batched.batch_size = 2
    together = encoder.embed(PICTURES)
    for picture, vector in zip(PICTURES, together, strict=True):
        np.testing.assert_array_equal(encoder.embed([picture])[0], vector)
    np.testing.assert_allclose(batched.embed(PICTURES), together, atol=1e-6)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_half_precision_is_near_full_and_not_taken_for_it(tmp_path):
    folder = save(tmp_path / "clip", "clip")
    full, half = (load_encoder(folder, device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert np.abs(full.embed(PICTURES) - half.embed(PICTURES)).max() < 0.05
    assert half.name == f"{full.name} in bfloat16"  # the name is the key of kept vectors


def test_without_clip_the_packaged_encoder_is_taken_and_says_so(monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch")
    monkeypatch.setattr(encoders, "_local_copy", lambda name: False)
    monkeypatch.setattr(encoders, "_hub_answers", lambda: False)
    encoder = load_encoder()
    assert encoder.name == "efficientnet-lite0" and CLIP in encoder.describe and "not comparable" in encoder.describe
    same, *others = encoder.embed([PICTURES[0], *PICTURES])
    assert same @ others[0] == pytest.approx(1.0, abs=1e-6)
    assert max(float(same @ other) for other in others[1:]) < 0.97


def test_where_clip_can_be_had_it_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setattr(encoders, "_local_copy", lambda name: True)
    with pytest.raises(UserError, match=CLIP):  # it is tried, and not silently replaced when it does not load
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        load_encoder()


def test_the_hub_answers_if_anything_comes_back_from_it(monkeypatch):
    class Busy(ReplyHandler):
        def do_HEAD(self):
            self.reply({}, 503)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, daemon=True).start()
        assert encoders._hub_answers()
        server.shutdown()
    assert not encoders._hub_answers()  # no one listens there any more


@pytest.mark.parametrize("name", ["no/such-model", "/no/such/folder"])
def test_an_unknown_encoder_is_one_message_with_a_remedy(name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="no vision model.*efficientnet-lite0"):
        load_encoder(name)


def test_what_is_no_picture_is_one_message(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        load_encoder(save(tmp_path / "vit", "vit"), device="cpu").embed([b"not a picture"])
    with pytest.raises(UserError, match="dtype"):
        load_encoder("any", dtype="int8")
