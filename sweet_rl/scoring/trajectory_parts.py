"""The text of a trajectory as parts: the agent's own text is trained, the rest is not."""

from __future__ import annotations

from sweet_rl.chat import ChatFormat, parts_from_text
from sweet_rl.errors import UserError
from sweet_rl.records import Part, Trajectory
from sweet_rl.scoring.markup import Markup, recognised


def trajectory_parts(
    trajectory: Trajectory,
    chat: ChatFormat | None = None,
    response_template: str | None = None,
    eos_text: str | None = None,
    bos_text: str | None = None,
) -> list[Part]:
    """A dialogue up to the agent's last turn as parts: its own, or parsed from released text, or rendered by `chat`.

    Args:
        trajectory: with at least one message of the agent.
        chat: renders a trajectory without parts, unless its text is written in the markup of `chat`.
        response_template: markup that opens the agent's turns; parses the text of released files. By default that of
            `chat`; without it Llama 3 and ChatML are recognised.
        eos_text, bos_text: markup of released files; default: that of `chat`, or what is recognised.

    Raises:
        UserError: the trajectory has no parts, and neither `chat` nor the markup of its text is known.
    """
    if trajectory.parts:
        return trajectory.parts
    last = _last_turn(trajectory)
    markup = text_markup(trajectory, chat, response_template, eos_text, bos_text)
    if markup is not None:
        row = trajectory.dialogue_history[last]
        return parts_from_text(row["input"] + row["output"], markup.header, markup.eos, markup.bos)
    if chat is not None:
        return chat.dialogue(trajectory.dialogue_history[: last + 1], trajectory.tokenizer)
    raise UserError(
        f"The trajectory {trajectory.id} carries no parts, so the agent's own text is not known: give "
        "--tokenizer (the agent's model), or for released files --response_template and --eos_text."
    )


def text_markup(
    trajectory: Trajectory,
    chat: ChatFormat | None = None,
    response_template: str | None = None,
    eos_text: str | None = None,
    bos_text: str | None = None,
) -> Markup | None:
    """The markup of a released dialogue, given or recognised; None if it is not known, or the dialogue has no text.

    Raises:
        UserError: a response template without the text that ends a turn.
    """
    row = trajectory.dialogue_history[_last_turn(trajectory)]
    if trajectory.parts or not isinstance(row.get("input"), str) or row.get("output") is None:
        return None
    if response_template is None:
        found = None if row.get("finish_reason") else recognised(row["input"], chat)  # ours say how a turn ended
        return found and Markup(found.header, eos_text or found.eos, found.bos if bos_text is None else bos_text)
    default = Markup("", chat.eos_text, chat.bos_text) if chat else recognised(response_template) or Markup("", "")
    if not (eos_text or default.eos):
        raise UserError(
            "With --response_template the text that ends a turn must be known: give --eos_text, "
            "or --tokenizer with a model that has it."
        )
    return Markup(response_template, eos_text or default.eos, default.bos if bos_text is None else bos_text)


def _last_turn(trajectory: Trajectory) -> int:
    return max(i for i, message in enumerate(trajectory.dialogue_history) if message["role"] == "assistant")
