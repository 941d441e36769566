"""The text of a trajectory as parts: the agent's own text is trained, the rest is not."""

from sweet_rl.chat import ChatFormat, parts_from_text
from sweet_rl.errors import UserError
from sweet_rl.records import Part, Trajectory


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
        chat: renders a trajectory without parts.
        response_template: markup that opens the agent's turns; parses the text of released files.
        eos_text, bos_text: markup of released files; default: that of `chat`.

    Raises:
        UserError: the trajectory has no parts, and neither `chat` nor the markup of its text is given.
    """
    if trajectory.parts:
        return trajectory.parts
    history = trajectory.dialogue_history
    last = max(i for i, message in enumerate(history) if message["role"] == "assistant")
    row = history[last]
    if response_template is not None and isinstance(row.get("input"), str) and row.get("output") is not None:
        eos = eos_text or (chat.eos_text if chat else None)
        if not eos:
            raise UserError(
                "With --response_template the text that ends a turn must be known: give --eos_text, "
                "or --tokenizer with a model that has it."
            )
        bos = bos_text if bos_text is not None else (chat.bos_text if chat else None)
        return parts_from_text(row["input"] + row["output"], response_template, eos, bos or "")
    if chat is not None:
        return chat.dialogue(history[: last + 1], trajectory.tokenizer)
    raise UserError(
        f"The trajectory {trajectory.id} carries no parts, so the agent's own text is not known: give "
        "--tokenizer (the agent's model), or for released files --response_template and --eos_text."
    )
