"""The reasoning that models such as Qwen3 write between `<think>` and `</think>` before their reply."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def without_thinking(text: str, prompt: str | None = None) -> str:
    """Return a sampled text without the reasoning at its beginning: what others see of it, and what is graded.

    A text whose reasoning a token limit cut has nothing else: "" is returned. Later mentions of the tags stay.

    Args:
        text: Text as it was sampled.
        prompt: Text that it continues, if it is known. Some templates open the reasoning themselves.
    """
    opened = text.lstrip().startswith(OPEN) or (prompt is not None and prompt.rstrip().endswith(OPEN))
    thinking, closed, spoken = text.partition(CLOSE)
    if opened:
        return spoken.lstrip() if closed else ""
    if closed and OPEN not in thinking:  # the opening tag was in a prompt that is not known
        return spoken.lstrip()
    return text
