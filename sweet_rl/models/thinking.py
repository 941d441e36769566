"""The reasoning that models such as Qwen3 write between `<think>` and `</think>` before their reply."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def without_thinking(text: str, prompt: str | None = None, finished: bool = False) -> str:
    """Return a sampled text without the reasoning at its beginning: what others see of it, and what is graded.

    A text whose reasoning a token limit cut has nothing else: "" is returned. Later mentions of the tags stay.

    Args:
        text: Text as it was sampled.
        prompt: Text that it continues, if it is known. Some templates open the reasoning themselves.
        finished: Whether the model ended the text. If the prompt opened the reasoning, and a finished text does not
            close it, the text is the reply.
    """
    own = text.lstrip().startswith(OPEN)
    opened = own or (prompt is not None and prompt.rstrip().endswith(OPEN))
    thinking, closed, spoken = text.partition(CLOSE)
    if opened and not closed:
        return text if finished and not own else ""
    if opened or (closed and OPEN not in thinking):  # the opening tag can be in a prompt that is not known
        return spoken.lstrip()
    return text
