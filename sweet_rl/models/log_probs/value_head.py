"""The value head: a linear function of the mean hidden state, one scalar per turn (the paper's ablation of the
log-ratio critic).

A turn's value is computed from the mean of the last layer's hidden states over all tokens of the text up to the
turn's end: c, o_t and a_t. It takes the place of the advantage A(o_t, a_t, c) in equation 2. One forward pass over a
dialogue gives the values of all its turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import ROW_TOKENS, in_batches, run_rows
from sweet_rl.models.log_probs.projection import projection_replaced, unwrapped
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.weights import load_frozen
from sweet_rl.runs.errors import UserError, read_by_library

HEAD = "value_head"


class ValueHead(nn.Linear):
    """A linear layer that computes in the precision of its input, whatever that of its weights."""

    def forward(self, means: Tensor) -> Tensor:
        return F.linear(means, self.weight.to(means.dtype), self.bias.to(means.dtype))


def attach_value_head(model: nn.Module, seed: int = 0, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """Give the model a new `value_head`, Linear(hidden size, 1), drawn by `seed`.

    Values do not depend on the vocabulary projection: it is frozen, unless it is the input embedding as well.

    Args:
        model: Causal language model.
        seed: Random seed of the weights.
        dtype: Data type of the weights; default: float32, or float64 if the model is. In bfloat16 steps as small
            as the learning rate are rounded away, unless the optimizer steps a float32 copy, as DeepSpeed does.
            DeepSpeed also needs one data type for all weights.
    """
    inner = unwrapped(model)
    width = inner.config.get_text_config().hidden_size
    head = ValueHead(width, 1, dtype=dtype or torch.promote_types(inner.dtype, torch.float32))
    with torch.no_grad():
        draw = torch.Generator().manual_seed(seed)
        head.weight.copy_(torch.randn(1, width, generator=draw) / (width + 1) ** 0.5)
        head.bias.zero_()
    inner.value_head = head.to(inner.device)
    projection = inner.get_output_embeddings()
    if projection.weight is not inner.get_input_embeddings().weight:
        projection.requires_grad_(False)
    return inner


def load_value_model(
    path: str,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    load: Callable[..., nn.Module] = load_frozen,
) -> PreTrainedModel:
    """A model of train_value.py for scoring, frozen; `load(path, dtype, device)` loads the model under the head.

    Raises:
        UserError: The folder has no value head.
    """
    state: dict[str, Tensor] = {}
    with read_by_library(lambda error: UserError(f"{path}: its weights are damaged or not whole ({error}).")):
        for file in Path(path).glob("model*.safetensors"):
            with safe_open(file, "pt") as weights:
                names = [name for name in weights.keys() if name.startswith(f"{HEAD}.")]  # noqa: SIM118
                state |= {name.removeprefix(f"{HEAD}."): weights.get_tensor(name) for name in names}
    if not state:
        raise UserError(f"{path} has no value head. Train one with train_value.py.")
    model = attach_value_head(load(path, dtype, device))
    model.get_submodule(HEAD).load_state_dict(state)
    return model.requires_grad_(False)


def value_batch(
    texts: Sequence[EncodedText], share: bool = True, row_tokens: int = ROW_TOKENS, unit: str = "turn"
) -> dict[str, Any]:
    """The batch for `turn_values`: rows of `lay_out` in which every token is fed.

    Args:
        texts: N texts.
        share: Whether texts with the same prompt share a block.
        row_tokens: Number of tokens per row.
        unit: "turn" (each turn has a value) or "trajectory" (one value, at the end of the text).

    Returns:
        The entries of `lay_out`, and for the T values
          spans          T tuples: row, start and end of the prompt, start of the completion, end of the turn; an end
                         is the column behind the last one
          text_of_value  int64 [T], the text of each value
    """
    batch = lay_out(texts, share, row_tokens, feed_last=True)
    spans, owners = [], []
    for number, (text, (row, start, completion)) in enumerate(zip(texts, batch["starts"].tolist(), strict=True)):
        for end in _ends(text, unit):
            behind = text.prompt_length
            spans.append((row, start, start + behind, completion, completion + end - behind))
            owners.append(number)
    return batch | {"spans": tuple(spans), "text_of_value": torch.tensor(owners)}


def _ends(text: EncodedText, unit: str) -> list[int]:
    """Number of tokens of the text up to the end of each turn that has a value."""
    if unit == "trajectory":
        return [len(text)]
    last = np.flatnonzero(np.diff(text.turns, append=text.turns[-1] + 1))
    return (text.targets[last] + 1).tolist()


def turn_values(model: nn.Module, batch: dict[str, Any]) -> Tensor:
    """The values of a `value_batch`: [T] float32, or float64 if the model is."""
    head = unwrapped(model).get_submodule(HEAD)

    def value(_, hidden: Tensor) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        means = []
        for row, start, behind_prompt, completion, end in batch["spans"]:
            prompt, turns = hidden[row, start:behind_prompt], hidden[row, completion:end]
            means.append((prompt.sum(0, dtype=wide) + turns.sum(0, dtype=wide)) / (len(prompt) + len(turns)))
        with torch.autocast(hidden.device.type, enabled=False):
            return head(torch.stack(means))[None]

    with projection_replaced(model, value):
        return run_rows(model, batch)[0, :, 0]


def value_texts(
    model: nn.Module, texts: Sequence[EncodedText], token_budget: int = 8192, share: bool | None = None
) -> list[float]:
    """The value of each text's last turn under a model of `load_value_model`, in the order of `texts`; no gradients.

    `share` says whether the model was switched by `share_prompts`; default: switch it.
    """
    share = share_prompts(model) if share is None else share

    def compute(chosen: list[EncodedText], to_device: Callable[[dict], dict]) -> list[float]:
        return turn_values(model, to_device(value_batch(chosen, share, ROW_TOKENS, "trajectory"))).tolist()

    return in_batches(model, texts, token_budget, compute)
