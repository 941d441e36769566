"""The text that a model reads, as the messages that a viewer shows, without its chat markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sweet_rl.method.privileged_information import BEFORE
from sweet_rl.models.texts.markup import Family, family_of, messages_in
from sweet_rl.runs.records import Part

BOS = re.compile(r"\A(?:<\|begin_of_text\|>|<\|begin\|>|<bos>|<s>)+")
# Placeholder for a part in which no markup is looked for: text of the agent, and text that only spells markup.
_HELD = re.compile("\ue0f0([0-9]+)\ue0f1")
_NOTHING = re.compile(r"(?!)")


def messages_of(text: str | Sequence[Part]) -> list[dict]:
    """A prompt or a whole dialogue as messages {role, text, trained?}.

    `role` is system, user or assistant; `hint` for the privileged information before the dialogue; `text` for text
    without known markup, unchanged. Trained parts belong to the agent, whatever markup surrounds them.
    """
    if isinstance(text, str):
        parts: list[Part] = [{"text": BOS.sub("", text, count=1), "train": False}]
    else:
        parts = [part for part in text if not part.get("bos")]
    family = family_of("".join(part["text"] for part in parts if not _is_held(part)))
    closing = family.closing if family else _NOTHING
    skeleton = ""
    held: list[Part] = []
    for part in parts:
        if not _is_held(part):
            skeleton += part["text"]
            continue
        end = ""
        if part["train"] or part.get("token_ids"):
            part, end = _without_closing(part, closing)
        skeleton += f"\ue0f0{len(held)}\ue0f1{end}"
        held.append(part)
    messages: list[dict] = []
    place, role = 0, "text"
    for start, content, following in _spans(skeleton, family):
        _add(messages, role, skeleton[place:start], held, closing)
        place, role = content, following
    _add(messages, role, skeleton[place:], held, closing)
    return messages


def _is_held(part: Part) -> bool:
    return bool(part["train"] or part.get("plain") or part.get("token_ids") or _HELD.search(part["text"]))


def _spans(skeleton: str, family: Family | None) -> list[tuple[int, int, str]]:
    """(end of the text before it, start of its content, role) of each message; without markup each held part is one."""
    if family is not None:
        return [(span.start, span.content, span.role) for span in messages_in(skeleton, family)]
    return [(place, place, "text") for match in _HELD.finditer(skeleton) for place in match.span()]


def _without_closing(part: Part, closing: re.Pattern[str]) -> tuple[Part, str]:
    """A turn of the agent without the closing markup that the model produced at its end, and that markup."""
    for match in closing.finditer(part["text"]):
        if match.end() == len(part["text"]):
            return {**part, "text": part["text"][: match.start()]}, match.group()
    return part, ""


def _add(messages: list[dict], role: str, raw: str, held: Sequence[Part], closing: re.Pattern[str]) -> None:
    """Add one message. Trained text makes it the agent's; the hint becomes a message of its own."""
    trained = False
    pieces: list[str] = []
    place = 0
    for match in _HELD.finditer(raw):
        pieces.append(closing.sub("", raw[place : match.start()]))
        place = match.end()
        number = int(match[1])  # a placeholder that two parts spell together stands for nothing
        part = held[number] if number < len(held) else {"text": match[0], "train": False}
        if part.get("plain") and part["text"].startswith(BEFORE):
            messages.append({"role": "hint", "text": part["text"]})
            continue
        trained = trained or part["train"]
        pieces.append(part["text"])
    pieces.append(closing.sub("", raw[place:]))
    text = "".join(pieces).strip("\n")
    if role == "text" and text.startswith(BEFORE):
        role = "hint"
    if trained:
        messages.append({"role": "assistant", "text": text, "trained": True})
    elif text.strip():
        messages.append({"role": role, "text": text})
