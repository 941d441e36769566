"""The text of a trajectory as parts: the agent's own text is trained, the rest is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import Markup, parts_from_text, recognised
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part, Trajectory


@dataclass(frozen=True)
class TextMarkup:
    """What is given about the texts of trajectories without parts.

    Attributes:
        chat: Chat format that renders a trajectory, unless its text is written in the markup of `chat`.
        response_template: Markup that opens the agent's turns in released files. By default that of `chat`; without
            it Llama 3 and ChatML are recognised.
        eos_text: Markup that ends a turn in released files. By default that of `chat`, or what is recognised.
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
    last = _last_turn(trajectory)
    markup = text_markup(trajectory, texts)
    if markup is not None:
        row: Mapping[str, Any] = trajectory.dialogue_history[last]
        return parts_from_text(row["input"] + row["output"], markup)
    if texts.chat is not None:
        return texts.chat.dialogue(trajectory.seen(last + 1), trajectory.tokenizer)
    raise UserError(
        f"The trajectory {trajectory.id} carries no parts, so the agent's own text is not known: give "
        "--tokenizer (the agent's model), or for released files --response_template and --eos_text."
    )


def text_markup(trajectory: Trajectory, texts: TextMarkup) -> Markup | None:
    """The markup of a released dialogue, given or recognised; None if it is not known, or the dialogue has no text.

    Raises:
        UserError: a response template without the text that ends a turn.
    """
    row: Mapping[str, Any] = trajectory.dialogue_history[_last_turn(trajectory)]
    if trajectory.parts or not isinstance(row.get("input"), str) or row.get("output") is None:
        return None
    chat, header, eos, bos = texts.chat, texts.response_template, texts.eos_text, texts.bos_text
    if header is None:
        own = Markup(chat.reply_header, chat.eos_text, chat.bos_text) if chat else None
        found = None if row.get("finish_reason") else recognised(row["input"], own)  # ours say how a turn ended
        return found and Markup(found.header, eos or found.eos, found.bos if bos is None else bos)
    default = Markup("", chat.eos_text, chat.bos_text) if chat else recognised(header) or Markup("", "")
    if not (eos or default.eos):
        raise UserError(
            "With --response_template the text that ends a turn must be known: give --eos_text, "
            "or --tokenizer with a model that has it."
        )
    return Markup(header, eos or default.eos, default.bos if bos is None else bos)


def _last_turn(trajectory: Trajectory) -> int:
    return max(i for i, message in enumerate(trajectory.dialogue_history) if message["role"] == "assistant")
