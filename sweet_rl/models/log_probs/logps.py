"""Log-probs of trained tokens under a model, for training, reference log-probs and ranking.

A prompt is computed once for all the completions that share it, and hidden states are projected to the vocabulary only
at positions that predict a trained token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.models.log_probs.attention import attention_inputs, share_prompts
from sweet_rl.models.log_probs.projection import (
    chunked_logps,
    has_plain_head,
    projection_replaced,
    token_logps,
    unwrapped,
    wide_projection,
)
from sweet_rl.models.log_probs.rows import EncodedText, group_indices, lay_out
from sweet_rl.models.weights import check_length, context_length

ROW_TOKENS = 16384  # of one row at most; the mask of a longer row would need gigabytes


def run_rows(model: torch.nn.Module, batch: dict[str, Any]) -> Tensor:
    """Run the model on rows of `lay_out`; return its logits, or what `projection_replaced` puts in their place.

    Entries of batch["model_inputs"] are passed to the model too. "inputs_embeds" and "rope_positions" replace the ids
    and their positions. Raises UserError if a text is longer than the model's context.
    """
    config = unwrapped(model).config
    layout = batch["layout"]
    tokens = batch["blocks"].shape[1] if layout is None else max(block.longest for block in layout)
    check_length(tokens, context_length(config), f"a text for {config._name_or_path or config.model_type}")
    inputs = dict(batch.get("model_inputs", {}), input_ids=batch["input_ids"]) | attention_inputs(model, batch)
    if "inputs_embeds" in batch:
        inputs["input_ids"], inputs["inputs_embeds"] = None, batch["inputs_embeds"]
    if "position_ids" in batch:
        inputs["position_ids"] = batch.get("rope_positions", batch["position_ids"])
    return model(**inputs, use_cache=False).logits


def scored_positions(hidden: Tensor, batch: dict[str, Any]) -> Tensor:
    """hidden [R, L, H] -> [S, H], the hidden states that predict the trained tokens of a batch of `rows.lay_out`."""
    # In a model on several GPUs the last layer can be on another one than the batch.
    return hidden[batch["rows"].to(hidden.device), batch["columns"].to(hidden.device)]


def completion_logps(model: torch.nn.Module, batch: dict[str, Any]) -> Tensor:
    """Log-prob of every trained token of a batch of `rows.lay_out`: [S], float32, or float64 if the model is.

    Equal, with its gradients, to one plain forward pass per text. A batch with shared prompts needs a model that
    `share_prompts` has switched.
    """
    targets = batch["targets"]
    inner = unwrapped(model)
    head, vocabulary = inner.get_output_embeddings(), inner.config.get_text_config().vocab_size

    def logits(projection: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        return wide_projection(head, projection)(scored_positions(hidden, batch))[None]

    def score(projection: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        project = wide_projection(head, projection)
        return chunked_logps(project, scored_positions(hidden, batch), targets, vocabulary)[None, :, None]

    if not has_plain_head(model):
        with projection_replaced(model, logits):
            return token_logps(run_rows(model, batch)[0], targets)

    with projection_replaced(model, score):
        return run_rows(model, batch)[0, :, 0]


def batches_by_tokens(texts: Sequence[EncodedText], token_budget: int) -> list[list[int]]:
    """Indices of texts, those with one prompt together, in batches of about `token_budget` tokens."""
    groups = group_indices(text.prompt for text in texts)
    groups.sort(key=lambda group: max(len(texts[i]) for i in group))
    batches: list[list[int]] = []
    room = 0
    for group in groups:
        prompt = texts[group[0]].prompt_length
        for order, i in enumerate(group):
            cost = len(texts[i]) - (prompt if order else 0)
            if not batches or cost > room:
                batches.append([])
                room, cost = token_budget, len(texts[i])
            batches[-1].append(i)
            room -= cost
    return batches


def on_device(batch: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The batch with its tensors on `device`, also those in nested dictionaries."""

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return on_device(value, device)
        return value.to(device) if isinstance(value, Tensor) else value

    return {name: moved(value) for name, value in batch.items()}


@torch.no_grad()
def in_batches(
    model: torch.nn.Module,
    texts: Sequence[EncodedText],
    token_budget: int,
    compute: Callable[[list[EncodedText], Callable[[dict], dict]], Sequence],
    progress: Callable[[int], None] | None = None,
) -> list:
    """The result of `compute` for each text, in the order of `texts`; no gradients. Equal texts are computed once.

    `compute(some texts, function that moves a batch to the model's device)` returns one result per text, and
    `progress` is called after each batch with the number of its texts.
    """
    unique = list({text.key: text for text in texts}.values())
    device = next(model.parameters()).device
    results: dict[bytes, Any] = {}
    for batch in batches_by_tokens(unique, token_budget):
        chosen = [unique[place] for place in batch]
        values = compute(chosen, lambda batch: on_device(batch, device))
        results.update(zip((text.key for text in chosen), values, strict=True))
        if progress:
            progress(len(chosen))
    return [results[text.key] for text in texts]


def score_texts(
    model: torch.nn.Module,
    texts: Sequence[EncodedText],
    token_budget: int = 8192,
    share: bool | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens, float32 [n_i], in the order of `texts`; no gradients.

    `share` says whether the model was switched by `share_prompts`; default: switch it. `progress`: as in `in_batches`.
    """
    share = share_prompts(model) if share is None else share

    def compute(chosen: list[EncodedText], to_device: Callable[[dict], dict]) -> list[np.ndarray]:
        logps = completion_logps(model, to_device(lay_out(chosen, share, ROW_TOKENS))).cpu().numpy()
        return np.split(logps, np.cumsum([len(text.targets) for text in chosen])[:-1])

    return in_batches(model, texts, token_budget, compute, progress)
