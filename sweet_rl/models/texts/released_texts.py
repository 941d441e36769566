"""The text of a trajectory, and released texts, as parts: the agent's own text is trained, the rest is not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any, NoReturn

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.records import Part, Trajectory


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

    @classmethod
    def of(cls, chat: ChatFormat) -> Markup:
        return cls(chat.reply_header, chat.eos_text, chat.bos_text)


LLAMA3 = Markup("<|start_header_id|>assistant<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>")
CHATML = Markup("<|im_start|>assistant", "<|im_end|>")


@dataclass(frozen=True)
class TextMarkup:
    """What is given about the texts of trajectories without parts.

    Attributes:
        chat: Chat format that renders trajectories. Released text in its own markup is taken as it is.
        response_template: Markup that opens the agent's turns in released files. By default that of `chat`; without
            it Llama 3 and ChatML are recognised.
    """

    chat: ChatFormat | None = None
    response_template: str | None = None


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
            "the agent's turns are not known. Write the pairs from their dialogues by evaluate_code.py --tokenizer, "
            "with a model that has this markup."
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
    turn = re.compile(rf"{re.escape(markup.header)}[\r\n]*(.*?(?:{re.escape(markup.eos)}|\Z))", re.DOTALL)
    for reply in turn.finditer(text):
        parts.append({"text": text[place : reply.start(1)], "train": False})
        if reply[1]:
            parts.append({"text": reply[1], "train": True})
        place = reply.end()
    if place < len(text):
        parts.append({"text": text[place:], "train": False})
    return parts


def last_reply_parts(texts: Sequence[str], own: Markup, where: str) -> list[list[Part]]:
    """The parts of texts that begin alike, as released turn pairs do: what follows the beginning is trained.

    The beginning ends with the last header of the markup `own` that all texts share. The agent's turns in it are marked
    `turn`. Raises UserError, naming `where`, if the texts have no header in common.
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


def trajectory_parts(trajectory: Trajectory, texts: TextMarkup) -> list[Part]:
    """A dialogue up to the agent's last turn as parts: its own, or parsed from released text, or rendered by `chat`.

    Raises UserError if it has no parts, and neither `chat` nor the markup of its text is known.
    """
    if trajectory.parts:
        return trajectory.parts
    markup = text_markup(trajectory, texts)
    if markup is not None:
        row: Mapping[str, Any] = trajectory.dialogue_history[_last_turn(trajectory)]
        return parts_from_text(row["input"] + row["output"], markup)
    if texts.chat is not None:
        return rendered(trajectory, texts.chat)
    raise UserError(
        f"The trajectory {trajectory.id} carries no parts, so the agent's own text is not known: give "
        "--tokenizer (the agent's model)."
    )


def rendered(trajectory: Trajectory, chat: ChatFormat) -> list[Part]:
    """A dialogue up to the agent's last turn, laid out by `chat`."""
    if trajectory.dialogue_history[0]["role"] == "assistant":
        refuse_unasked(trajectory, 0)
    return chat.dialogue(trajectory.seen(_last_turn(trajectory) + 1), trajectory.tokenizer)


def check_turn_ends(parts: Sequence[Part], chat: ChatFormat, where: str) -> None:
    """Raise UserError, naming `where`, if a trained turn ends with the marker of another family than that of `chat`."""
    for eos in (LLAMA3.eos, CHATML.eos):
        foreign = chat.tokenizer.convert_tokens_to_ids(eos) not in chat.eos_ids
        if foreign and any(part["train"] and part["text"].endswith(eos) for part in parts):
            raise UserError(
                f"{where}: a turn ends with {eos!r}, which ends no turn of {chat.name} and would be trained as text. "
                "Write the texts anew from their dialogues (evaluate_code.py --tokenizer), or train a model of that "
                "family."
            )


def refuse_unasked(trajectory: Trajectory, place: int) -> NoReturn:
    """Raise RecordError: a message of the agent without one of the human before it has no prompt."""
    raise RecordError(
        f"{trajectory.place('dialogue')}, dialogue_history[{place}]: a message of the agent without one of the human "
        "before it, so there is no prompt for it. Join two messages of the agent in a row, and leave out one with "
        "which the dialogue begins."
    )


def text_markup(trajectory: Trajectory, texts: TextMarkup) -> Markup | None:
    """The markup of a released dialogue, given or recognised; None if it is not known, or the dialogue has no text."""
    row: Mapping[str, Any] = trajectory.dialogue_history[_last_turn(trajectory)]
    if trajectory.parts or not isinstance(row.get("input"), str) or row.get("output") is None:
        return None
    chat = texts.chat
    if texts.response_template is not None:
        return given_markup(texts.response_template, chat)
    if row.get("finish_reason"):  # written by this package, not released
        return None
    return recognised(row["input"], Markup.of(chat) if chat else None)


def given_markup(header: str, chat: ChatFormat | None) -> Markup:
    """The markup of texts whose turns open with `header`, with the EOS and BOS of the header's family.

    A header of an unknown family is taken for one of the model's. Raises UserError if there is no model.
    """
    own = Markup.of(chat) if chat else None
    family = (own and recognised(header, own)) or recognised(header) or own
    if family is None:
        raise UserError(
            f"With --response_template {header!r} the text that ends a turn must be known: give --tokenizer, a model "
            "whose chat template has it."
        )
    return Markup(header, family.eos, family.bos)


def _last_turn(trajectory: Trajectory) -> int:
    return max(i for i, message in enumerate(trajectory.dialogue_history) if message["role"] == "assistant")
