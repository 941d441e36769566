"""Texts that hold a dialogue together with its chat markup, as released files do: where its messages begin and end.

Training splits such a text into parts (`parts_from_text`); the viewers show it as messages. Both find them by
`messages_in`. Our own files hold parts, which say what is trained, so that nothing has to be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.records import Part

# ------------------------------------------------------------------------------------------------ messages in a text

ROLES = {"model": "assistant", "human": "user", "INST": "user"}


@dataclass(frozen=True)
class Family:
    """How the messages of a family of chat formats open and close.

    Attributes:
        opening: Pattern of the markup before a message. Its first group is the role; without one it is the agent's.
        closing: Pattern of the markup that ends a message.
    """

    opening: re.Pattern[str]
    closing: re.Pattern[str]


FAMILIES = (
    Family(  # Llama 3
        re.compile(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n{0,2}"),
        re.compile(r"<\|eot_id\|>|<\|end_of_text\|>"),
    ),
    Family(re.compile(r"<\|im_start\|>(\w+)\n?"), re.compile(r"<\|im_end\|>\n?|<\|endoftext\|>")),  # ChatML
    Family(re.compile(r"<start_of_turn>(\w+)\n?"), re.compile(r"<end_of_turn>\n?|<eos>")),  # Gemma
    Family(  # Phi 3 and others
        re.compile(r"<\|(system|user|assistant)\|>\n?"), re.compile(r"<\|end\|>\n?|<\|endoftext\|>|</s>\n?")
    ),
    Family(re.compile(r"\[(INST)\] ?| ?\[/INST\] ?"), re.compile(r"</s>(?:<s>)?")),  # Mistral, Llama 2
)


@dataclass(frozen=True)
class Span:
    """A message in a text, in characters.

    Attributes:
        role: Role of its author: system, user or assistant.
        start: Start of the markup before it.
        content: Start of its content.
        end: End of the message, with the markup that ends a reply of the agent.
    """

    role: str
    start: int
    content: int
    end: int


def family_of(text: str) -> Family | None:
    """The family whose markup is in the text; None if it is of no known one."""
    return next((family for family in FAMILIES if family.opening.search(text)), None)


def messages_in(text: str, family: Family) -> Iterator[Span]:
    """The messages of a text in order.

    A reply of the agent ends with the first closing markup after it, whatever else is in it; without one with the
    text. Any other message ends where the next one begins.
    """
    match = family.opening.search(text)
    while match:
        name = match[1] if family.opening.groups and match[1] else "assistant"
        role = ROLES.get(name, name)
        closing = family.closing.search(text, match.end()) if role == "assistant" else None
        if role == "assistant":
            end = closing.end() if closing else len(text)
            following = family.opening.search(text, end)
        else:
            following = family.opening.search(text, match.end())
            end = following.start() if following else len(text)
        yield Span(role, match.start(), match.end(), end)
        match = following


# ------------------------------------------------------------------------------------------------ released texts


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


def recognised(text: str, chat: ChatFormat | None = None) -> Markup | None:
    """The markup of a text: that of `chat`, or without one Llama 3 or ChatML. None if the text has another."""
    known = (LLAMA3, CHATML) if chat is None else (Markup(chat.reply_header, chat.eos_text, chat.bos_text),)
    return next((markup for markup in known if markup.header and markup.header in text), None)


def parts_from_text(text: str, markup: Markup) -> list[Part]:
    """The parts of the text of one dialogue: the replies of the agent are trained, each with the EOS that ends it.

    A BOS is kept once, at the start. Text before it (the reference solution, in released pairs) follows it. No EOS is
    added at the end of the text. A text does not show a turn that was cut (if another one follows), nor markup that a
    user typed.

    Raises:
        UserError: `markup.header` is not in the text.
    """
    if markup.header not in text:
        raise UserError(
            f"the text {text[:60]!r}... has no {markup.header!r}, so the turns of the agent are not known. "
            "Give --response_template the markup before the agent's replies, as this file writes it."
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


def last_reply_parts(texts: Sequence[str], chat: ChatFormat, where: str) -> list[list[Part]]:
    """The parts of texts that begin alike, as released turn pairs do: what follows the beginning is trained.

    The beginning ends with the last header that all texts share. The agent's turns in it are marked `turn`.

    Args:
        texts: The chosen and the rejected text.
        chat: Chat format whose markup the texts are written in.
        where: Place of the texts, for the error.

    Raises:
        UserError: The texts have no header in common.
    """
    beginning = commonprefix(list(texts))
    markup = recognised(beginning, chat)
    if markup is None:
        raise UserError(
            f"{where}: chosen and rejected are plain strings, which do not say what the agent wrote, and their common "
            f"beginning has no {chat.reply_header!r} (chat template of {chat.name}). Give --response_template, the "
            "markup that opens the agent's turns."
        )
    split = [parts_from_text(text, markup) for text in texts]
    for parts in split:
        for part in [part for part in parts if part["train"]][: beginning.count(markup.header) - 1]:
            part |= {"train": False, "turn": True}
    return split
