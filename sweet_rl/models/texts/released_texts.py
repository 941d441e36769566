"""Released texts as parts: which of their characters are the agent's, and so are trained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix

from sweet_rl.models.texts.markup import Family, messages_in
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part


@dataclass(frozen=True)
class Markup:
    """The markup of one chat format, as far as the agent's replies need it.

    Attributes:
        header: Text that opens a reply of the agent. Line breaks after it belong to it.
        eos: Text that ends a reply.
        bos: Text that begins a dialogue; "" if nothing does.
    """

    header: str
    eos: str
    bos: str = ""

    @property
    def family(self) -> Family:
        """The messages of the agent alone; all other text is between them."""
        return Family(re.compile(re.escape(self.header) + r"[\r\n]*"), re.compile(re.escape(self.eos)))


LLAMA3 = Markup("<|start_header_id|>assistant<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>")
CHATML = Markup("<|im_start|>assistant", "<|im_end|>")


def recognised(text: str, own: Markup | None = None) -> Markup | None:
    """The markup of a text: `own`, or without it Llama 3 or ChatML. None if the text has another."""
    known = (LLAMA3, CHATML) if own is None else (own,)
    return next((markup for markup in known if markup.header and markup.header in text), None)


def parts_from_text(text: str, markup: Markup) -> list[Part]:
    """The parts of the text of one dialogue: the replies of the agent are trained, each with the EOS that ends it.

    A BOS is kept once, at the start. Text before it (the reference solution, in released pairs) follows it. No EOS is
    added at the end of the text. A text does not show a turn that was cut (if another one follows), nor markup that a
    user typed.

    Raises:
        UserError: `markup.header` is not in the text, or several times and `markup.eos` never.
    """
    if markup.header not in text:
        raise UserError(
            f"the text {text[:60]!r}... has no {markup.header!r}, so the turns of the agent are not known. "
            "Give --response_template the markup before the agent's replies, as this file writes it."
        )
    if text.count(markup.header) > 1 and markup.eos not in text:
        raise UserError(
            f"the text {text[:60]!r}... has {markup.header!r} several times and never {markup.eos!r}, so the ends of "
            "the agent's turns are not known. Write the pairs from their dialogues by evaluate_code.py; its --eos_text "
            "is what ends a turn in them."
        )
    parts: list[Part] = []
    if markup.bos and markup.bos in text.partition(markup.header)[0]:
        parts.append({"text": markup.bos, "train": False, "bos": True})
        before, _, text = text.partition(markup.bos)
        while text.startswith(markup.bos):
            text = text.removeprefix(markup.bos)
        if before:
            parts.append({"text": before, "train": False, "plain": True})
    place = 0
    for reply in messages_in(text, markup.family):
        parts.append({"text": text[place : reply.content], "train": False})
        if reply.end > reply.content:
            parts.append({"text": text[reply.content : reply.end], "train": True})
        place = reply.end
    if place < len(text):
        parts.append({"text": text[place:], "train": False})
    return parts


def last_reply_parts(texts: Sequence[str], own: Markup, where: str) -> list[list[Part]]:
    """The parts of texts that begin alike, as released turn pairs do: what follows the beginning is trained.

    The beginning ends with the last header that all texts share. The agent's turns in it are marked `turn`.

    Args:
        texts: The chosen and the rejected text.
        own: Markup that the texts are written in.
        where: Place of the texts, for the error.

    Raises:
        UserError: The texts have no header in common.
    """
    beginning = commonprefix(list(texts))
    markup = recognised(beginning, own)
    if markup is None:
        raise UserError(
            f"{where}: chosen and rejected are plain strings, which do not say what the agent wrote, and their common "
            f"beginning has no {own.header!r}, which opens a turn in the model's chat template. Give "
            "--response_template, the markup that opens the agent's turns in them."
        )
    split = [parts_from_text(text, markup) for text in texts]
    for parts in split:
        for part in [part for part in parts if part["train"]][: beginning.count(markup.header) - 1]:
            part |= {"train": False, "turn": True}
    return split
