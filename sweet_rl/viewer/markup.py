"""Parse the text that a model reads into messages, removing the chat markup of the usual model families."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sweet_rl.log_probs.privileged_information import BEFORE
from sweet_rl.records import Part

# How a message opens (its first group is the role) and closes: Llama 3, ChatML, Gemma, and <|user|> families.
FORMATS = (
    (
        re.compile(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n{0,2}"),
        re.compile(r"<\|eot_id\|>|<\|end_of_text\|>"),
    ),
    (re.compile(r"<\|im_start\|>(\w+)\n?"), re.compile(r"<\|im_end\|>\n?|<\|endoftext\|>")),
    (re.compile(r"<start_of_turn>(\w+)\n?"), re.compile(r"<end_of_turn>\n?|<eos>")),
    (re.compile(r"<\|(system|user|assistant)\|>\n?"), re.compile(r"<\|end\|>\n?|<\|endoftext\|>|</s>\n?")),
    (re.compile(r"\[(INST)\] ?| ?\[/(INST)\] ?"), re.compile(r"</s>")),
)
ROLES = {"model": "assistant", "human": "user", "INST": "user"}
BOS = re.compile(r"\A(?:<\|begin_of_text\|>|<\|begin\|>|<bos>|<s>)+")
# Placeholder for a part that must not be parsed as markup: text of the agent, and text that only looks like markup.
_HELD = re.compile("\ue0f0([0-9]+)\ue0f1")


def messages_of(text: str | Sequence[Part]) -> list[dict]:
    """A prompt or a whole dialogue as messages {role, text, trained?}.

    role is system, user or assistant; `hint` for the privileged information before the dialogue; `text` for text
    without known markup, unchanged. Trained parts belong to the agent, whatever markup surrounds them.
    """
    parts = [{"text": BOS.sub("", text, count=1), "train": False}] if isinstance(text, str) else list(text)
    held: list[Part] = []
    skeleton = ""
    for part in parts:
        if part["train"] or part.get("plain") or part.get("token_ids") or _HELD.search(part["text"]):
            skeleton += f"\ue0f0{len(held)}\ue0f1"
            held.append(part)
        elif not part.get("bos"):
            skeleton += part["text"]
    opening, closing = next(((o, c) for o, c in FORMATS if o.search(skeleton)), (None, None))
    if opening is None:
        return _without_markup(skeleton, held)
    messages: list[dict] = []
    place, role = 0, "text"
    for match in [*opening.finditer(skeleton), None]:
        _add(messages, role, skeleton[place : match.start() if match else len(skeleton)], held, closing)
        if match:
            name = match[1] or "assistant"
            place, role = match.end(), ROLES.get(name, name)
    return messages


def _add(messages: list[dict], role: str, raw: str, held: list[Part], closing: re.Pattern) -> None:
    """Add one message. Trained text makes it the agent's; the hint becomes a message of its own."""
    trained = False
    pieces: list[str] = []
    place = 0
    for match in _HELD.finditer(raw):
        pieces.append(closing.sub("", raw[place : match.start()]))
        part = held[int(match[1])] if int(match[1]) < len(held) else {"text": match[0], "train": False}
        place = match.end()
        if part.get("plain") and part["text"].startswith(BEFORE):
            messages.append({"role": "hint", "text": part["text"]})
            continue
        trained = trained or part["train"]
        own = part["train"] or part.get("token_ids")
        pieces.append(_without_closing(part["text"], closing) if own else part["text"])
    pieces.append(closing.sub("", raw[place:]))
    text = "".join(pieces).strip("\n")
    if role == "text" and text.startswith(BEFORE):
        role = "hint"
    if trained:
        messages.append({"role": "assistant", "text": text, "trained": True})
    elif text.strip():
        messages.append({"role": role, "text": text})


def _without_markup(skeleton: str, held: list[Part]) -> list[dict]:
    messages: list[dict] = []
    nothing = re.compile(r"(?!)")
    place = 0
    for match in _HELD.finditer(skeleton):
        _add(messages, "text", skeleton[place : match.start()], held, nothing)
        _add(messages, "text", match[0], held, nothing)
        place = match.end()
    _add(messages, "text", skeleton[place:], held, nothing)
    return messages


def _without_closing(text: str, closing: re.Pattern) -> str:
    """The text of a turn without the end-of-turn marker that the model produced."""
    last = None
    for last in closing.finditer(text):  # noqa: B007
        pass
    return text[: last.start()] if last and last.end() == len(text) else text
