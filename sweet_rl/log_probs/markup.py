"""The chat markup in released texts, which hold whole dialogues as strings: where replies begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix

from sweet_rl.chat import ChatFormat, parts_from_text
from sweet_rl.errors import UserError
from sweet_rl.records import Part


@dataclass(frozen=True)
class Markup:
    """The markup of one chat format.

    Attributes:
        header: opens a reply of the agent.
        eos: ends it.
        bos: begins a text; "" if nothing does.
    """

    header: str
    eos: str
    bos: str = ""


LLAMA3 = Markup("<|start_header_id|>assistant<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>")
CHATML = Markup("<|im_start|>assistant", "<|im_end|>")


def recognised(text: str, chat: ChatFormat | None = None) -> Markup | None:
    """The markup that a text is written in: that of `chat`; without one, Llama 3 or ChatML. None if it is another."""
    known = (LLAMA3, CHATML) if chat is None else (Markup(chat.reply_header, chat.eos_text, chat.bos_text),)
    return next((markup for markup in known if markup.header and markup.header in text), None)


def last_reply_parts(texts: Sequence[str], chat: ChatFormat, where: str) -> list[list[Part]]:
    """The parts of texts that begin alike, as released turn pairs do: trained is what follows the beginning.

    The beginning ends with the last header that all texts share. The agent's turns in it are marked `turn`.

    Args:
        texts: chosen and rejected.
        chat: whose markup the texts are written in.
        where: place of the texts, for the error.

    Raises:
        UserError: the texts have no header in common.
    """
    beginning = commonprefix(list(texts))
    markup = recognised(beginning, chat)
    if markup is None:
        raise UserError(
            f"{where}: chosen and rejected are plain strings, which do not say what the agent wrote, and their common "
            f"beginning has no {chat.reply_header!r} (chat template of {chat.name}). Give --response_template, the "
            "markup that opens the agent's turns."
        )
    split = [parts_from_text(text, markup.header, markup.eos, markup.bos) for text in texts]
    for parts in split:
        for part in [part for part in parts if part["train"]][: beginning.count(markup.header) - 1]:
            part |= {"train": False, "turn": True}
    return split
