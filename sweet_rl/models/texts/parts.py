"""The text of a trajectory as parts: the agent's own text is trained, the rest is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import Markup, parts_from_text, recognised
from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.records import Message, Part, Trajectory

_END = re.compile(r"(<\|eot_id\|>|<\|im_end\|>|<end_of_turn>|<\|end\|>)\s*\Z")


@dataclass(frozen=True)
class TextMarkup:
    """What is given about the texts of trajectories without parts.

    Attributes:
        chat: Chat format that renders a trajectory, unless its text is written in the markup of `chat`.
        response_template: Markup that opens the agent's turns in released files. By default that of `chat`; without
            it Llama 3 and ChatML are recognised.
        eos_text: Markup that ends a turn in released files. The default is that of the family of the header.
        bos_text: Markup that begins a dialogue in released files. The default is as for `eos_text`.
    """

    chat: ChatFormat | None = None
    response_template: str | None = None
    eos_text: str | None = None
    bos_text: str | None = None


def trajectory_parts(trajectory: Trajectory, texts: TextMarkup) -> list[Part]:
    """A dialogue up to the agent's last turn as parts: its own, or parsed from released text, or rendered by `chat`.

    Args:
        trajectory: Trajectory with at least one message of the agent.
        texts: Markup by which it is read or rendered if it has no parts of its own.

    Raises:
        UserError: The trajectory has no parts, and neither `chat` nor the markup of its text is known.
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
        "--tokenizer (the agent's model), or for released files --response_template and --eos_text."
    )


def rendered(trajectory: Trajectory, chat: ChatFormat) -> list[Part]:
    """A dialogue up to the agent's last turn, laid out by `chat`. Markers by which another family ends a turn are left
    out."""

    def own(message: Message) -> Message:
        if message["role"] != "assistant" or message.get("finish_reason") not in (None, "stop"):
            return message
        output = message.get("output")
        said = message["content"] if output is None else output
        end = foreign_end(said, chat)
        return {**message, "output": said.removesuffix(end)} if end else message

    if trajectory.dialogue_history[0]["role"] == "assistant":
        refuse_unasked(trajectory, 0)
    return chat.dialogue([*map(own, trajectory.seen(_last_turn(trajectory) + 1))], trajectory.tokenizer)


def refuse_unasked(trajectory: Trajectory, place: int) -> NoReturn:
    """Raise RecordError: the agent's message at this place of the history follows no other message, or one of its own.

    No chat format has a prompt for it.
    """
    raise RecordError(
        f"{trajectory.place('dialogue')}, dialogue_history[{place}]: a message of the agent without one of the human "
        "before it, so there is no prompt for it. Join two messages of the agent in a row, and leave out one with "
        "which the dialogue begins."
    )


def text_markup(trajectory: Trajectory, texts: TextMarkup) -> Markup | None:
    """The markup of a released dialogue, given or recognised; None if it is not known, or the dialogue has no text.

    Raises:
        UserError: As `given_markup`.
    """
    row: Mapping[str, Any] = trajectory.dialogue_history[_last_turn(trajectory)]
    if trajectory.parts or not isinstance(row.get("input"), str) or row.get("output") is None:
        return None
    chat, header, eos, bos = texts.chat, texts.response_template, texts.eos_text, texts.bos_text
    if header is None:
        own = Markup(chat.reply_header, chat.eos_text, chat.bos_text) if chat else None
        found = None if row.get("finish_reason") else recognised(row["input"], own)  # ours say how a turn ended
        return found and Markup(found.header, eos or found.eos, found.bos if bos is None else bos)
    return given_markup(header, chat, eos, bos)


def given_markup(header: str, chat: ChatFormat | None, eos: str | None = None, bos: str | None = None) -> Markup:
    """The markup of texts by the header of the agent's turns; what else is not given is that of the header's family.

    A header of an unknown family is taken for one of the model's.

    Raises:
        UserError: The text that ends a turn is not known, or is not given and ends no turn of the model.
    """
    own = Markup(chat.reply_header, chat.eos_text, chat.bos_text) if chat else None
    family = (own and recognised(header, own)) or recognised(header) or own or Markup("", "")
    if not (eos or family.eos):
        raise UserError(
            "With --response_template the text that ends a turn must be known: give --eos_text, "
            "or --tokenizer with a model that has it."
        )
    if chat and not eos and foreign_end(family.eos, chat):
        raise UserError(
            f"--response_template {header!r} is not of the family of {chat.name}, whose turns end with "
            f"{chat.eos_text!r}: {family.eos!r} would be trained as plain text. Dialogues need no --response_template: "
            "they are laid out again by the model's chat template. Write pairs of strings anew from their dialogues "
            "(evaluate_code.py --tokenizer), or train a model of that family."
        )
    return Markup(header, eos or family.eos, family.bos if bos is None else bos)


def foreign_end(text: str, chat: ChatFormat) -> str:
    """The marker at the end of a text with which another family than that of `chat` ends a turn; "" without one."""
    found = _END.search(text)
    own = {chat.tokenizer.decode([token], skip_special_tokens=False) for token in chat.eos_ids} if found else set()
    return found[0] if found and found[1] not in own else ""


def _last_turn(trajectory: Trajectory) -> int:
    return max(i for i, message in enumerate(trajectory.dialogue_history) if message["role"] == "assistant")
