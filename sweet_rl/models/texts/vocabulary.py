"""Whether two models mean the same by a token id."""

from __future__ import annotations

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_config, model_path
from sweet_rl.runs.errors import UserError


def check_vocabulary(chat: ChatFormat, other: str, flag: str) -> None:
    """Check that another model can compute log-probs of token ids that were made by `chat`.

    Args:
        chat: Chat format of the model that the ids are for.
        other: Name of the other model.
        flag: Flag that names it, for errors.

    Raises:
        UserError: The other model's tokenizer gives a token another id, or its embedding is too small.
    """
    from transformers import AutoTokenizer

    own = chat.tokenizer.get_vocab()
    rows = load_config(other).get_text_config().vocab_size
    try:
        theirs = AutoTokenizer.from_pretrained(model_path(other)).get_vocab()
    except Exception:  # a folder of weights alone: their number must do
        theirs, found = own, f"it has no tokenizer, and {rows} token ids instead of {chat.vocabulary}"
        differs = rows != chat.vocabulary
    else:
        token = next((token for token, number in own.items() if theirs.get(token) != number), None)
        found = f"the id of {token!r} is {theirs.get(token or '')} there and {own.get(token or '')} here"
        differs = token is not None
    if not differs and rows <= max(own.values()):
        found, differs = f"it has {rows} token ids, and the texts up to {max(own.values()) + 1}", True
    if differs:
        raise UserError(
            f"{flag} {other} has another vocabulary than {chat.name}: {found}. Its log-probs of these token ids would "
            "mean nothing. Give a model with the same tokenizer."
        )
