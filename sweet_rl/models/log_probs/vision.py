"""Dialogues behind a picture, for vision-language models.

The picture follows the BOS. Its placeholder tokens are laid out as by the processor of the model's family; the dialogue
uses the usual chat format. In Frontend Design the picture is that of the reference page: the privileged information c.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sweet_rl.models.log_probs.attention import PICTURE_FAMILIES, share_prompts
from sweet_rl.models.log_probs.logps import batches_by_tokens, on_device
from sweet_rl.models.log_probs.projection import unwrapped
from sweet_rl.models.log_probs.rows import EncodedText, group_indices
from sweet_rl.models.log_probs.value_head import turn_values, value_batch
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import freeze, load_config, load_weights
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part

FAMILIES = tuple(sorted(PICTURE_FAMILIES))


def is_vision_model(path: str) -> bool:
    """Whether the model at `path` (folder or hub name) belongs to one of FAMILIES."""
    return load_config(path).model_type in FAMILIES


def load_vision_weights(path: str, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The vision-language model at `path`. Raises UserError if it is of no known family."""
    from transformers import AutoModelForImageTextToText

    if not is_vision_model(path):
        raise UserError(
            f"{path} is no vision-language model that is known here ({', '.join(FAMILIES)}), and the reference page is "
            "shown as a picture. Give Qwen/Qwen2-VL-7B-Instruct, or one like it."
        )
    return load_weights(path, dtype, auto_class=AutoModelForImageTextToText)


def load_vision_frozen(
    path: str, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> torch.nn.Module:
    """The vision-language model at `path` for scoring (`weights.freeze`)."""
    return freeze(load_vision_weights(path, dtype), device)


class VisionFormat:
    """The chat markup and the picture markup of one vision-language model.

    The image processor has the Pillow backend: the same pixels on every machine.
    """

    def __init__(self, chat: ChatFormat, processor: Any, picture_token: int, opening: int, closing: int) -> None:
        self.chat, self.processor = chat, processor
        self.picture_token, self._opening, self._closing = picture_token, opening, closing

    @classmethod
    def from_pretrained(cls, path: str, max_pixels: int | None = None) -> VisionFormat:
        """The format of a model. Larger pictures than `max_pixels` (default: the processor's) are shrunk.

        Raises UserError if no image processor can be loaded from there.
        """
        from transformers import AutoConfig, AutoImageProcessor

        limit = {} if max_pixels is None else {"max_pixels": max_pixels}
        try:
            config = AutoConfig.from_pretrained(path)
            processor = AutoImageProcessor.from_pretrained(path, backend="pil", **limit)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: no image processor can be loaded from there. {error}") from error
        tokens = (config.image_token_id, config.vision_start_token_id, config.vision_end_token_id)
        return cls(ChatFormat.from_pretrained(path), processor, *tokens)

    def encode(
        self,
        parts: Sequence[Part],
        tokenizer: str | None,
        size: tuple[int, int],
        where: str,
        around: tuple[str, str],
    ) -> EncodedText:
        """The dialogue's ids behind a picture, which follows the BOS.

        The picture is `size` (width, height) pixels large, between the texts `around`. Other arguments and errors as in
        `ChatFormat.encode` and `EncodedText.build`.
        """
        width, height = size
        patches = self.processor.get_number_of_image_patches(height, width, {})
        picture = [self.picture_token] * (patches // self.processor.merge_size**2)
        start = 1 if parts and parts[0].get("bos") else 0
        before, after = (self.chat.encode([{"text": text, "train": False}])[0] for text in around)
        shown = [*before, self._opening, *picture, self._closing, *after]
        bos, _ = self.chat.encode(parts[:start], tokenizer, where)
        ids, train = self.chat.encode(parts[start:], tokenizer, where)
        return EncodedText.build([*bos, *shown, *ids], [False] * (len(bos) + len(shown)) + train, where)

    def model_inputs(self, pictures: Sequence[bytes], input_ids: Tensor) -> dict[str, Tensor]:
        """The model's inputs beside `input_ids` [R, L]: the pixels of one PNG per row, and their places."""
        from PIL import Image

        images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
        pixels = self.processor(images=images, return_tensors="pt")
        return {
            "pixel_values": pixels["pixel_values"],
            "image_grid_thw": pixels["image_grid_thw"],
            "mm_token_type_ids": (input_ids == self.picture_token).long(),
        }


def picture_batch(texts: Sequence[EncodedText], pictures: Sequence[bytes], form: VisionFormat) -> dict[str, Any]:
    """A `value_batch` with one text per row, each behind its picture. The model computes the positions (M-RoPE)."""
    batch = value_batch(texts, share=False)
    del batch["position_ids"]
    return batch | {"model_inputs": form.model_inputs(pictures, batch["input_ids"])}


@torch.inference_mode()
def picture_values(
    model: torch.nn.Module,
    form: VisionFormat,
    texts: Sequence[EncodedText],
    pictures: Sequence[bytes],
    token_budget: int = 8192,
) -> list[float]:
    """The value of each text's last turn behind its picture, in the order of `texts`; no gradients.

    A prompt and its picture are computed once for all texts that share both. A forward pass has about `token_budget`
    tokens.
    """
    device = next(model.parameters()).device
    share_prompts(model)
    values: dict[int, float] = {}
    for group in group_indices((picture, text.prompt) for picture, text in zip(pictures, texts, strict=True)):
        for chunk in batches_by_tokens([texts[i] for i in group], token_budget):
            members = [group[i] for i in chunk]
            batch = _candidates_batch(model, [texts[i] for i in members], pictures[members[0]], form, device)
            values.update(zip(members, turn_values(model, batch).tolist(), strict=True))
    return [values[i] for i in range(len(texts))]


def _candidates_batch(
    model: torch.nn.Module, texts: Sequence[EncodedText], picture: bytes, form: VisionFormat, device: torch.device
) -> dict[str, Any]:
    """A `value_batch` of one row: a prompt with one picture, and all the texts that go on from there.

    The model itself would give such rows wrong positions: embeddings and positions are computed here.
    """
    inner: Any = unwrapped(model)
    batch = on_device(value_batch(texts, share=True, row_tokens=sum(map(len, texts)), unit="trajectory"), device)
    ids, prompt = batch["input_ids"], texts[0].prompt_length
    inputs = on_device(form.model_inputs([picture], ids[:, :prompt]), device)
    grid = inputs["image_grid_thw"]
    embedded = inner.get_input_embeddings()(ids)
    pieces = torch.cat(inner.get_image_features(inputs["pixel_values"], grid).pooler_output).to(embedded)
    places = inner.model.get_rope_index(
        ids[:, :prompt], mm_token_type_ids=inputs["mm_token_type_ids"], image_grid_thw=grid
    )[0]
    after = batch["position_ids"][:, prompt:] - prompt + places.max() + 1  # text goes on from there in all three axes
    return batch | {
        "inputs_embeds": embedded.masked_scatter((ids == form.picture_token)[..., None], pieces),
        "rope_positions": torch.cat([places, after.expand(3, *after.shape)], -1),
    }
