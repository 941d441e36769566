"""Critics with a regression head (models of train_value.py): a candidate's score is the value of its turn.

`ValueHeadCritic` reads text (the ablation of the paper's Table 3). `PictureValueCritic` is the paper's critic for
Frontend Design: it sees a picture of the reference page.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweet_rl.method.candidate_texts import check_candidates, dialogue_of, encoded_candidates, reference_solution
from sweet_rl.method.privileged_information import AFTER, BEFORE
from sweet_rl.method.sweet_critic import ScoringModel
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import check_length, model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import TurnCandidates

if TYPE_CHECKING:
    from sweet_rl.models.log_probs.vision import VisionFormat

PAGE_TIMEOUT = 60.0  # seconds; the same pages were drawn before, for training
Value = Callable[[Sequence[EncodedText]], list[float]]
"""Texts -> the value at the end of each text."""


@dataclass(frozen=True)
class ValueCriticSettings(ScoringModel):
    """A model of train_value.py, for text or for pictures.

    Attributes:
        no_prompt: Do not show the reference solution to the critic.
    """

    no_prompt: bool = False


class ValueHeadCritic:
    """Scores candidates by their value after the turn's prompt, with the reference solution if `hint`."""

    def __init__(self, chat: ChatFormat, value: Value, hint: bool):
        self.chat, self.eos_text = chat, chat.eos_text
        self._value, self._hint = value, hint

    @classmethod
    def load(cls, settings: ValueCriticSettings) -> ValueHeadCritic:
        """Load the model, on the GPU if there is one. Raises UserError if it has no value head."""
        import torch

        from sweet_rl.models.log_probs.attention import share_prompts
        from sweet_rl.models.log_probs.value_head import load_value_model, value_texts

        path = model_path(settings.model_id)
        model = load_value_model(path, torch.bfloat16 if settings.reduced else torch.float32)
        share = share_prompts(model, settings.attention)

        def value(texts: Sequence[EncodedText]) -> list[float]:
            return value_texts(model, texts, settings.token_budget, share)

        return cls(ChatFormat.from_pretrained(path), value, not settings.no_prompt)

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The value of each candidate of each record."""
        texts = [encoded_candidates(record, self.chat, self._hint) for record in records]
        values = iter(self._value([text for group in texts for text in group]))
        return [[next(values) for _ in group] for group in texts]


class PictureValueCritic:
    """Scores candidates by their value after the dialogue and a picture of the reference page."""

    turns_per_call = 16
    eos_text = None  # because a candidate ends with the EOS of the model that sampled it

    def __init__(self, model: Any, form: VisionFormat, renderer: Any, token_budget: int = 16384) -> None:
        self.form, self.chat = form, form.chat
        self._model, self._renderer, self._token_budget = model, renderer, token_budget

    @classmethod
    def load(cls, settings: ValueCriticSettings) -> PictureValueCritic:
        """Load the model. Raises UserError if it has no value head, or `settings` hide the reference solution."""
        import torch

        from sweet_rl.models.log_probs.value_head import load_value_model
        from sweet_rl.models.log_probs.vision import VisionFormat, load_vision_frozen
        from sweet_rl.rendering.renderer import PageRenderer

        if settings.no_prompt:
            raise UserError("a vision critic ranks with the reference page's picture: leave out --no_prompt.")
        path = model_path(settings.model_id)
        dtype = torch.bfloat16 if settings.reduced else torch.float32
        model = load_value_model(path, dtype, load=load_vision_frozen)
        renderer = PageRenderer(**_window(path), timeout=PAGE_TIMEOUT)
        return cls(model, VisionFormat.from_pretrained(path), renderer, settings.token_budget)

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The value of each candidate of each record."""
        from PIL import Image

        from sweet_rl.models.log_probs.vision import picture_values

        texts: list[EncodedText] = []
        pictures: list[bytes] = []
        for record in records:
            check_candidates(record, hint=True)
            rendered = self._renderer.render(reference_solution(record))
            if rendered.png is None:
                raise UserError(
                    f"candidates {record.id!r}: the reference page of their task gives no picture "
                    f"({rendered.failure['kind']}: {rendered.failure['message']}). Leave such tasks out with "
                    "filter_websites.py."
                )
            texts += self._encoded(record, Image.open(io.BytesIO(rendered.png)).size)
            pictures += [rendered.png] * len(record.additional_outputs)
        values = iter(picture_values(self._model, self.form, texts, pictures, self._token_budget))
        return [[next(values) for _ in record.additional_outputs] for record in records]

    def _encoded(self, record: TurnCandidates, size: tuple[int, int]) -> list[EncodedText]:
        dialogue = dialogue_of(record)  # the agent's own layout is that of another model
        reasons = record.additional_finish_reasons or ["stop"] * len(record.additional_outputs)
        texts = []
        for number, (text, reason) in enumerate(zip(record.additional_outputs, reasons, strict=True)):
            message = {"role": "assistant", "content": text, "output": text, "finish_reason": reason}
            *prompt, reply = self.form.chat.dialogue([*dialogue, message])
            parts = [*(part | {"train": False, "turn": part["train"]} for part in prompt), reply]
            where = f"{record.place('candidates')}, candidate {number}"
            texts.append(self.form.encode(parts, None, size, where, (BEFORE, AFTER)))
            check_length(len(texts[-1]), self.chat.context, where)
        return texts

    def close(self) -> None:
        """Close the browser."""
        self._renderer.close()


def load_value_critic(settings: ValueCriticSettings) -> ValueHeadCritic | PictureValueCritic:
    """Load the model, which sees pictures or reads text. Raises UserError if it cannot be loaded."""
    from sweet_rl.models.log_probs.vision import is_vision_model

    sees_pictures = is_vision_model(model_path(settings.model_id))
    return (PictureValueCritic if sees_pictures else ValueHeadCritic).load(settings)


def _window(path: str) -> dict[str, Any]:
    """The window in which the critic saw pages in training, from its manifest; empty if there is none."""
    settings = (read_manifest(path) or {"settings": {}})["settings"]
    return {name: settings[f"page_{name}"] for name in ("width", "height") if settings.get(f"page_{name}") is not None}
