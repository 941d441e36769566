"""The critic with a regression head: a scalar on the mean hidden state (the paper's ablation of the log-ratio).

A turn's value is a linear function of the mean of the last layer's hidden states over all tokens of the text up to
the turn's end: c, o_t and a_t. It takes the place of the advantage A(o_t, a_t, c) in equation 3. One forward pass
over a dialogue gives the values of all its turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.scoring.logps import ROW_TOKENS, in_batches, run_rows
from sweet_rl.scoring.projection import projection_replaced, unwrapped
from sweet_rl.scoring.rows import EncodedText, lay_out
from sweet_rl.scoring.shared_prefix import share_prompts
from sweet_rl.scoring.weights import load_frozen
from sweet_rl.training.examples import DialogueExamples, PreferenceExamples
from sweet_rl.training.losses import dpo_loss, sum_by_text
from sweet_rl.training.trainer import GroupedTrainer

HEAD = "value_head"
OBJECTIVES = ("preference", "classification")
UNITS = ("turn", "trajectory")


@dataclass(frozen=True)
class ValueObjective:
    """What the values are trained to say.

    objective: "preference", -log sigmoid(beta * (chosen's values - rejected's values)) over pairs, Bradley-Terry as
    in equation 3; or "classification", binary cross-entropy of each value as the logit of the dialogue's success
    (the value function of Figure 3a).
    unit: "turn", every turn of the agent has a value, and a dialogue their sum; or "trajectory", a dialogue has one
    value, at its end.
    """

    objective: str = "preference"
    unit: str = "turn"
    beta: float = 1.0

    def __post_init__(self) -> None:
        for name, value, known in (("objective", self.objective, OBJECTIVES), ("unit", self.unit, UNITS)):
            if value not in known:
                raise UserError(f"--{name} is {value!r}; it must be {' or '.join(known)}.")
        if self.beta <= 0:
            raise UserError(f"--beta is {self.beta}; it must be above 0.")


def attach_value_head(model: nn.Module, seed: int = 0) -> nn.Module:
    """Gives the model a new `value_head`, Linear(hidden size, 1), and freezes the vocabulary projection, which no
    value depends on, where it is not the input embedding as well."""
    width = model.config.get_text_config().hidden_size
    head = nn.Linear(width, 1, dtype=model.dtype)
    with torch.no_grad():
        draw = torch.Generator().manual_seed(seed)
        head.weight.copy_(torch.randn(1, width, generator=draw) / (width + 1) ** 0.5)
        head.bias.zero_()
    model.value_head = head.to(model.device)
    projection = model.get_output_embeddings()
    if projection.weight is not model.get_input_embeddings().weight:
        projection.requires_grad_(False)
    return model


def has_value_head(path: str | Path) -> bool:
    """Whether the model folder was made by train_value.py."""
    return _head_file(Path(path)) is not None


def load_value_model(
    path: str,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    load: Callable[..., nn.Module] = load_frozen,
) -> nn.Module:
    """A model of train_value.py for scoring; `load` loads what is under the head. Raises UserError if the folder has no
    value head."""
    file = _head_file(Path(path))
    if file is None:
        raise UserError(f"{path} has no value head. Train one with train_value.py.")
    model = load(path, dtype, device)
    attach_value_head(model)
    with safe_open(file, "pt") as weights:
        state = {name: weights.get_tensor(f"{HEAD}.{name}").to(dtype) for name in ("weight", "bias")}
    model.value_head.load_state_dict(state)
    return model.requires_grad_(False)


def _head_file(folder: Path) -> Path | None:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        name = json.loads(index.read_text())["weight_map"].get(f"{HEAD}.weight")
        return None if name is None else folder / name
    file = folder / "model.safetensors"
    if not file.is_file():
        return None
    with safe_open(file, "pt") as weights:
        return file if f"{HEAD}.weight" in weights.keys() else None  # noqa: SIM118


def value_batch(
    texts: Sequence[EncodedText], share: bool = True, row_tokens: int = ROW_TOKENS, unit: str = "turn"
) -> dict[str, Any]:
    """Rows for `turn_values`: those of `lay_out`, every token fed, and

      pieces      int64 [R, L] which piece (a prompt, or a stretch of a completion up to a turn's end) a token is of
      members     [T, pieces] 1 for the pieces that make up a valued turn's text so far, else 0
      tokens      int64 [T] how many tokens that is
      value_text  int64 [T] whose turn it is
    """
    batch = lay_out(texts, share, row_tokens, whole=True)
    pieces = np.full(batch["blocks"].shape, -1, np.int64)
    prompts: dict[tuple[int, int], int] = {}
    count = 0
    turns: list[tuple[list[int], int]] = []  # the pieces of a turn's text so far, and its tokens
    owners = []
    for number, (text, (row, start, at)) in enumerate(zip(texts, batch["starts"].tolist(), strict=True)):
        prompt = text.prompt_length
        if (row, start) not in prompts:
            prompts[row, start] = count
            pieces[row, start : start + prompt] = count
            count += 1
        before = [prompts[row, start]]
        begin = prompt
        for end in _ends(text, unit):
            pieces[row, at + begin - prompt : at + end - prompt] = count
            before = [*before, count]
            turns.append((before, end))
            owners.append(number)
            begin, count = end, count + 1
    members = torch.zeros(len(turns), count)
    for turn, (before, _) in enumerate(turns):
        members[turn, before] = 1
    pieces[pieces < 0] = count
    return batch | {
        "pieces": torch.from_numpy(pieces),
        "members": members,
        "tokens": torch.tensor([tokens for _, tokens in turns]),
        "value_text": torch.tensor(owners),
    }


def _ends(text: EncodedText, unit: str) -> list[int]:
    """How many tokens the text has up to the end of each valued turn."""
    if unit == "trajectory":
        return [len(text)]
    last = np.flatnonzero(np.diff(text.turns, append=text.turns[-1] + 1))
    return (text.targets[last] + 1).tolist()


def turn_values(model: nn.Module, batch: dict[str, Any]) -> Tensor:
    """The value of every valued turn of a `value_batch`, [T], float32, or float64 if the model is."""
    head = unwrapped(model).get_submodule(HEAD)

    def value(_, hidden: Tensor) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            pieces = batch["pieces"].flatten()
            sums = hidden.new_zeros(batch["members"].shape[1] + 1, hidden.shape[-1], dtype=wide)
            sums = sums.index_add(0, pieces, hidden.reshape(-1, hidden.shape[-1]).to(wide))[:-1]
            means = batch["members"].to(wide) @ sums / batch["tokens"][:, None]
            return head(means.to(head.weight.dtype)).to(wide)[None]

    with projection_replaced(model, value):
        return run_rows(model, batch)[0, :, 0]


def preference_value_losses(
    values: Tensor, value_text: Tensor, texts: int, pairs: Tensor, beta: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum of the pairs' losses, and sums of what is worth logging. A text's score is the sum of its values.

    values [T]; value_text int64 [T], whose; pairs int64 [P, 2] (chosen, rejected).
    """
    scores = beta * sum_by_text(values, value_text, texts)
    chosen, rejected = scores[pairs[:, 0]], scores[pairs[:, 1]]
    loss = dpo_loss(chosen, rejected, 1.0).sum()
    return loss, {
        "items": torch.tensor(float(len(pairs)), device=values.device),
        "margin": (chosen - rejected).sum(),
        "accuracy": (chosen > rejected).float().sum(),
        "chosen_reward": chosen.sum(),
        "rejected_reward": rejected.sum(),
    }


def classification_losses(values: Tensor, value_text: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum over texts of the mean over their turns of the cross-entropy of (label, sigmoid of the value).

    values [T]; value_text int64 [T], whose; labels [N], 1 for success. Accuracy is that of the texts' mean values.
    """
    counts = torch.bincount(value_text, minlength=len(labels)).to(values.dtype)
    labels = labels.to(values.dtype)
    losses = F.binary_cross_entropy_with_logits(values, labels[value_text], reduction="none")
    loss = (sum_by_text(losses, value_text, len(labels)) / counts).sum()
    scores = sum_by_text(values, value_text, len(labels)) / counts
    return loss, {
        "items": torch.tensor(float(len(labels)), device=values.device),
        "accuracy": ((scores > 0) == (labels > 0.5)).float().sum(),
        "predicted": scores.sigmoid().sum(),
        "succeeded": labels.sum(),
    }


class ValuePreferenceTrainer(GroupedTrainer):
    """Trains a model with a value head on pairs."""

    def __init__(
        self, model, args, examples: PreferenceExamples, how: ValueObjective, chat: ChatFormat,
        train: np.ndarray, evaluation: np.ndarray, together: int = 4,
    ):  # fmt: skip
        self.beta, share = how.beta, share_prompts(model)

        def collate(indices: list[int]) -> dict[str, Any]:
            pairs = examples.pairs[indices]
            numbers, local = np.unique(pairs, return_inverse=True)
            batch = value_batch([examples.texts[n] for n in numbers], share, unit=how.unit)
            return batch | {"pairs": torch.from_numpy(local.reshape(pairs.shape))}

        super().__init__(
            model, args, train, evaluation, examples.prompts, examples.lengths, collate, chat, together
        )

    def items(self, batch: dict) -> int:
        return len(batch["pairs"])

    def outputs(self, model, batch: dict) -> Tensor:
        return turn_values(model, batch)

    def losses(self, values: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        return preference_value_losses(values, batch["value_text"], len(batch["starts"]), batch["pairs"], self.beta)


class ValueClassificationTrainer(GroupedTrainer):
    """Trains a model with a value head on dialogues that succeeded or did not; those of one task share a row."""

    def __init__(
        self, model, args, examples: DialogueExamples, how: ValueObjective, chat: ChatFormat,
        train: np.ndarray, evaluation: np.ndarray, together: int = 4,
    ):  # fmt: skip
        share = share_prompts(model)

        def collate(indices: list[int]) -> dict[str, Any]:
            batch = value_batch([examples.texts[i] for i in indices], share, unit=how.unit)
            return batch | {"labels": torch.tensor([examples.labels[i] for i in indices])}

        super().__init__(
            model, args, train, evaluation, examples.prompts, examples.lengths, collate, chat, together
        )

    def items(self, batch: dict) -> int:
        return len(batch["labels"])

    def outputs(self, model, batch: dict) -> Tensor:
        return turn_values(model, batch)

    def losses(self, values: Tensor, batch: dict) -> tuple[Tensor, dict[str, Tensor]]:
        return classification_losses(values, batch["value_text"], batch["labels"])


def value_texts(
    model: nn.Module, texts: Sequence[EncodedText], token_budget: int = 8192, share: bool | None = None
) -> list[float]:
    """The value of each text's last turn under a model of `load_value_model`; no gradients."""
    share = share_prompts(model) if share is None else share

    def compute(chosen: list[EncodedText], to_device: Callable[[dict], dict]) -> list[float]:
        return turn_values(model, to_device(value_batch(chosen, share, ROW_TOKENS, "trajectory"))).tolist()

    return in_batches(model, texts, token_budget, compute)
