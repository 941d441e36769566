"""`completion_logps`: the one place where a model becomes log-probs of trained tokens.

Training, the reference cache and ranking all come through here. A prompt is computed once for all
the completions that share it, and hidden states are projected to the vocabulary only at positions
that predict a trained token.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sweet_rl.training.rows import EncodedText, attention_mask, lay_out

log = logging.getLogger(__name__)

# Families whose masks and positions go through the 4D mask unchanged, each held equal to the plain way by a
# test.
LONGEST_ROW = 8192  # the mask of a row takes its length squared
SHARING_FAMILIES = frozenset({"llama", "qwen2", "qwen3", "mistral", "gpt_neox", "olmo2"})


def shares_prompts(model: torch.nn.Module) -> bool:
    """Whether the model's attention takes a block mask exactly: a tested family, SDPA or eager
    attention, no sliding window. Others go the plain way, one text a row, with a warning."""
    config = model.config
    attention = getattr(config, "_attn_implementation", None)
    kinds = getattr(config, "layer_types", None)
    sliding = (
        any(kind != "full_attention" for kind in kinds) if kinds else getattr(config, "sliding_window", None)
    )
    if config.model_type in SHARING_FAMILIES and attention in ("sdpa", "eager") and not sliding:
        return True
    log.warning(
        "%s with %s attention%s: prompts are not shared between completions (slower, same result)",
        config.model_type, attention, " and a sliding window" if sliding else "",
    )  # fmt: skip
    return False


def row_tokens_for(model: torch.nn.Module) -> int:
    """How long rows may grow: in a row of 4 hidden widths, attention costs less than the rest of the model
    does,
    so that repeating a prompt would not pay."""
    return min(4 * model.config.hidden_size, LONGEST_ROW)


@contextlib.contextmanager
def projected_at(model: torch.nn.Module, rows: Tensor, columns: Tensor) -> Iterator[None]:
    """While open, the vocabulary projection sees hidden[rows, columns] as [1, S, H] instead of [R, L, H].

    A hook and not a call of the inner model, so that whatever wraps the model (DDP, DeepSpeed, a
    checkpointing context) and whatever the family does after the projection stays in place.
    """
    inner = getattr(model, "module", model)
    handle = inner.get_output_embeddings().register_forward_pre_hook(
        lambda _, args: (args[0][rows, columns][None], *args[1:])
    )
    try:
        yield
    finally:
        handle.remove()


def completion_logps(model: torch.nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Log-prob of every trained token of a batch from `rows.lay_out`, [S], in its order.

    float32, or float64 if the model is. Equal, with its gradients, to one plain forward pass per text.
    """
    if "completions" in batch:
        dtype = next(model.parameters()).dtype
        if torch.is_autocast_enabled(batch["blocks"].device.type):
            dtype = torch.get_autocast_dtype(batch["blocks"].device.type)
        mask = attention_mask(batch["blocks"], batch["completions"], dtype)
    else:
        mask = (batch["blocks"] >= 0).long()
    with projected_at(model, batch["rows"], batch["columns"]):
        logits = model(
            input_ids=batch["input_ids"],
            attention_mask=mask,
            position_ids=batch["position_ids"],
            use_cache=False,
        ).logits[0]
    if logits.dtype != torch.float64:
        logits = logits.float()
    return logits.gather(-1, batch["targets"][:, None])[:, 0] - logits.logsumexp(-1)


def batches_by_tokens(texts: Sequence[EncodedText], token_budget: int) -> list[list[int]]:
    """Indices of texts, those with one prompt together, in batches of about `token_budget` tokens."""
    by_prompt: dict[bytes, list[int]] = {}
    for i, text in enumerate(texts):
        by_prompt.setdefault(text.prompt, []).append(i)
    groups = sorted(by_prompt.values(), key=lambda group: max(len(texts[i]) for i in group))
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


@torch.inference_mode()
def score_texts(
    model: torch.nn.Module,
    texts: Sequence[EncodedText],
    token_budget: int = 8192,
    share_prompts: bool | None = None,
    row_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens, float32 [n_i], in the order of `texts`; no gradients.

    Equal texts are computed once. `progress(n)` is called with the number of texts just done.
    """
    share = shares_prompts(model) if share_prompts is None else share_prompts
    row_tokens = row_tokens or row_tokens_for(model)
    first: dict[bytes, int] = {}
    for i, text in enumerate(texts):
        first.setdefault(text.key, i)
    unique = list(first.values())
    device = next(model.parameters()).device
    scores: dict[bytes, np.ndarray] = {}
    for members in batches_by_tokens([texts[i] for i in unique], token_budget):
        chosen = [texts[unique[m]] for m in members]
        batch = {name: t.to(device) for name, t in lay_out(chosen, share, row_tokens).items()}
        logps = completion_logps(model, batch).cpu().numpy()
        ends = np.cumsum([len(text.targets) for text in chosen])
        for text, values in zip(chosen, np.split(logps, ends[:-1]), strict=True):
            scores[text.key] = values
        if progress:
            progress(len(chosen))
    return [scores[text.key] for text in texts]
