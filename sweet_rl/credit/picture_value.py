"""The paper's frontend critic: candidates scored by a vision-language model that sees the reference page's picture."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.credit.candidate_texts import check_candidates
from sweet_rl.errors import UserError
from sweet_rl.records import TurnCandidates
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.scoring.vision import VisionFormat, opened

PAGE_TIMEOUT = 60.0  # seconds; the same pages were drawn before, for training


class PictureValueCritic:
    """The value of each candidate after its dialogue, by a vision model of train_value.py (see critics.Critic).

    renderer: draws the reference pages of the records' tasks.
    """

    turns_per_call = 16
    calls_at_once = 1

    def __init__(self, model, form: VisionFormat, renderer, token_budget: int = 16384) -> None:
        self.form, self.eos_text = form, None  # the candidates end as their own model ends a turn, not this one
        self._model, self._renderer, self._token_budget = model, renderer, token_budget

    @classmethod
    def load(cls, path: str, bf16: bool = False, token_budget: int = 16384) -> PictureValueCritic:
        """The model in this process, on the GPU if there is one. Raises UserError without a value head or a browser."""
        import torch

        from sweet_rl.rendering.renderer import PageRenderer
        from sweet_rl.scoring.value_head import load_value_model
        from sweet_rl.scoring.vision import load_vision_frozen

        dtype = torch.bfloat16 if bf16 else torch.float32
        model = load_value_model(path, dtype, load=load_vision_frozen)
        renderer = PageRenderer(**_window(path), timeout=PAGE_TIMEOUT)
        return cls(model, VisionFormat.from_pretrained(path), renderer, token_budget)

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        from sweet_rl.scoring.vision import picture_values

        texts: list[EncodedText] = []
        pictures: list[bytes] = []
        for record in records:
            check_candidates(record, hint=True)
            rendered = await asyncio.to_thread(self._renderer.render, record.task.ground_truth)
            if rendered.png is None:
                raise UserError(
                    f"candidates {record.id!r}: the reference page of their task gives no picture "
                    f"({rendered.failure['kind']}: {rendered.failure['message']}). Leave such tasks out with "
                    "filter_websites.py."
                )
            texts += self._encoded(record, opened(rendered.png).size)
            pictures += [rendered.png] * len(record.additional_outputs)
        values = iter(picture_values(self._model, self.form, texts, pictures, self._token_budget))
        return [[next(values) for _ in record.additional_outputs] for record in records]

    def _encoded(self, record: TurnCandidates, size: tuple[int, int]) -> list[EncodedText]:
        dialogue = record.dialogue
        if dialogue is None:
            raise UserError(
                f"candidates {record.id!r}: no 'dialogue', so its messages cannot be laid out for another model. "
                "Sample the candidates again with sample_best_of_n.py."
            )
        reasons = record.additional_finish_reasons or ["stop"] * len(record.additional_outputs)
        texts = []
        for number, (said, reason) in enumerate(zip(record.additional_outputs, reasons, strict=True)):
            message = {"role": "assistant", "content": said, "output": said, "finish_reason": reason}
            parts = self.form.chat.prompt(dialogue)
            parts = [part | {"train": False} for part in parts] + [self.form.chat.dialogue([*dialogue, message])[-1]]
            texts.append(self.form.encode(parts, None, size, f"candidates {record.id!r}, candidate {number}"))
        return texts

    async def close(self) -> None:
        self._renderer.close()


def _window(path: str) -> dict[str, int]:
    """The window in which the critic saw pages in training, as its manifest says; the usual one without it."""
    manifest = Path(path) / DIRECTORY_MANIFEST
    settings = json.loads(manifest.read_text(encoding="utf-8"))["settings"] if manifest.is_file() else {}
    sizes = {"width": settings.get("page_width"), "height": settings.get("page_height")}
    return {name: size for name, size in sizes.items() if size is not None}
