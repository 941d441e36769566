"""How long the texts of a model may be, and which of them may share a forward pass.

Two rotary embeddings rotate all texts of a forward pass as its longest text needs it: LongRoPE (Phi-3 and 4, one set of
frequencies up to the original context and another beyond it) and dynamic NTK (other frequencies for each length beyond
the context).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sweet_rl.runs.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def context_length(config: Any) -> int | None:
    """Return the number of tokens that a text of the model may have, or None if its configuration does not tell.

    Linear, dynamic NTK and YaRN scaling stretch the context by their factor. A sliding window does not end it.
    """
    text = config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None) or getattr(text, "max_seq_len", None)  # the second: MPT
    if not limit:
        return None
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") in ("linear", "dynamic", "yarn"):
        stretched = (rope.get("original_max_position_embeddings") or limit) * (rope.get("factor") or 1)
        limit = max(limit, int(stretched))
    return max(limit, getattr(text, "model_max_length", None) or 0)  # Command-R names its context so


def check_length(tokens: int, context: int | None, where: str, remedy: str = "") -> None:
    """Raise UserError for a text that is longer than the context of its model.

    Args:
        tokens: Number of tokens of the text.
        context: Number of tokens that a text may have; None if it is not known.
        where: Place of the text, for the error.
        remedy: What to do, as a sentence.
    """
    if context is not None and tokens > context:
        raise UserError(f"{where}: {tokens} tokens, but the context of the model has {context}. {remedy}".rstrip())


def rope_group(config: Any, tokens: int) -> tuple[int, ...]:
    """Return what is equal for two lengths if texts of these lengths may share a forward pass."""
    text = config.get_text_config()
    found = []
    for rope in ropes(text):
        kind = rope.get("rope_type", "default")
        if kind == "longrope":
            found.append(int(tokens > rope["original_max_position_embeddings"]))
        elif "dynamic" in kind:
            found.append(max(tokens, text.max_position_embeddings))
    return tuple(found)


def forget_lengths(model: PreTrainedModel) -> None:
    """Have dynamic NTK computed for the next forward pass by itself; it keeps the longest length that it has seen."""
    if any("dynamic" in rope.get("rope_type", "") for rope in ropes(model.config.get_text_config())):
        for module in model.modules():
            for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")]:
                setattr(module, name, 0)


def ropes(text: Any) -> Iterator[dict]:
    """The rotary embeddings of a text configuration: one, or one for each type of layer."""
    rope = getattr(text, "rope_parameters", None) or {}
    yield from [rope] if "rope_type" in rope else (one for one in rope.values() if isinstance(one, dict))
