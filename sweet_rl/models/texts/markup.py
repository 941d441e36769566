"""Where the messages of a text begin and end that holds a dialogue together with its chat markup, as released files do.

Training splits such a text into parts (`released_texts.parts_from_text`). Our own files hold parts, which say what is
trained, so that nothing has to be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
