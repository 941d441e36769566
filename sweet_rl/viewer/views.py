"""One record as the page shows it: plain JSON, in which every text stays text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sweet_rl.chat import parts_text
from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.mini.oracle import usefulness
from sweet_rl.records import Part, PreferencePair, Task, Trajectory, TurnCandidates
from sweet_rl.viewer.evidence import answer_code, grade_view
from sweet_rl.viewer.markup import messages_of

TITLE = 160
QUESTION = 2000


def trajectory_view(
    trajectory: Trajectory,
    credit: Mapping[int, dict] | None = None,
    candidates: Mapping[int, list[dict]] | None = None,
) -> dict:
    """A dialogue: {id, task, messages, answer, code, reward, ending, failure, grade, prompt, fields}.

    messages: {role, text, turn?, finish?, prompt?, credit?, oracle?, candidates?}; the agent's turns count from 0.
    credit: what `credit_file` wrote for each turn. candidates: each turn's `candidates_view`.
    prompt: the longest exact prompt; a message's `prompt` is how many UTF-16 units of it the agent was given, or a
    text of its own where that is no beginning of it.
    """
    prompts = exact_prompts(trajectory)
    longest = max((p for p in prompts if p is not None), key=len, default=None)
    messages: list[dict] = []
    turn = 0
    for place, row in enumerate(trajectory.dialogue_history):
        message: dict[str, Any] = {"role": row["role"], "text": row["content"]}
        if row["role"] == "assistant":
            message["turn"] = turn
            if row.get("finish_reason"):
                message["finish"] = row["finish_reason"]
            if prompts[turn] is not None:
                message["prompt"] = utf16_length(prompts[turn]) if longest.startswith(prompts[turn]) else prompts[turn]
            if credit and turn in credit:
                message["credit"] = credit[turn]
            if candidates and turn in candidates:
                message["candidates"] = candidates[turn]
            word = oracle_word(trajectory.task, trajectory.dialogue_history[:place], row["content"])
            if word:
                message["oracle"] = word
            turn += 1
        messages.append(message)
    view = {
        "id": trajectory.id,
        "task": task_view(trajectory.task),
        "messages": messages,
        "reward": trajectory.reward,
        "ending": trajectory.ending,
        "failure": trajectory.failure,
        "answer": trajectory.answer,
        "code": answer_code(trajectory),
        "grade": grade_view(trajectory),
        "prompt": longest,
        "fields": trajectory.extra,
    }
    return {name: value for name, value in view.items() if value is not None and value != {}}


def task_view(task: Task) -> dict:
    """A task: {id, description, truth, hidden?}; `hidden` are the rules of a mini task, in words."""
    view = {"id": task.id, "description": task.problem_description, "truth": task.ground_truth}
    if rules := hidden_rules(task):
        view["hidden"] = rules
    return view


def hidden_rules(task: Task) -> list[str]:
    """The topics of a mini task's hidden rules; none of any other task."""
    mini = task.extra.get("mini")
    try:
        return [str(rule[0]) for rule in mini["rules"]] if isinstance(mini, dict) else []
    except (KeyError, TypeError, IndexError):
        return []


def oracle_word(task: Task, dialogue: Sequence[dict], text: str) -> str | None:
    """What a mini task's oracle says of a turn: useful, repeated, useless, complete, early; None of other tasks."""
    if not hidden_rules(task):
        return None
    before = [{"role": m["role"], "content": _beginning(m["content"])} for m in dialogue if m["role"] == "assistant"]
    return usefulness(task.extra["mini"], before, _beginning(text))


def _beginning(text: str) -> str:
    """What the oracle needs of a turn: no question is longer, and an answer is told by its marker."""
    if len(text) <= QUESTION:
        return text
    return text[:QUESTION] + (ANSWER_MARKER if ANSWER_MARKER in text else "")


def exact_prompts(trajectory: Trajectory) -> list[str | None]:
    """For each turn of the agent the text that it was given, as the file has it; None where it does not say."""
    from_parts: list[str] = []
    before = ""
    for part in trajectory.parts or ():
        if part["train"]:
            from_parts.append(before)
        before += part["text"]
    rows = [row for row in trajectory.dialogue_history if row["role"] == "assistant"]
    told = [row.get("input") if isinstance(row.get("input"), str) else None for row in rows]
    from_parts = from_parts if len(from_parts) == len(rows) else [None] * len(rows)
    return [given if given is not None else part for given, part in zip(told, from_parts, strict=True)]


def candidates_view(
    record: TurnCandidates,
    dialogue: Sequence[dict] | None,
    pairs: Sequence[PreferencePair] | None = None,
    credit: Mapping[int, dict] | None = None,
) -> list[dict]:
    """A turn's candidates, best first where they are ranked: {text, number, score?, half?, finish?, chosen?, rejected?,
    oracle?, credit?}.

    half: which half of the ranking it is in (chosen, rejected, or middle, which is never drawn).
    chosen, rejected: in how many of `pairs` it was, where the turn's pairs are given.
    dialogue: the messages before the turn {role, content}, for the oracle; None where they are not known.
    """
    order = record.judge_result or range(len(record.additional_outputs))
    half = len(record.additional_outputs) // 2
    drawn = [(_last_text(pair.chosen), _last_text(pair.rejected)) for pair in pairs or ()]
    shown = []
    for rank, number in enumerate(order):
        text = record.additional_outputs[number]
        candidate: dict[str, Any] = {"text": text, "number": number}
        if record.judge_scores is not None:
            candidate["score"] = _rounded(record.judge_scores[number])
        if record.judge_result is not None:
            last = rank >= len(record.additional_outputs) - half
            candidate["half"] = "chosen" if rank < half else "rejected" if last else "middle"
        if record.additional_finish_reasons is not None:
            candidate["finish"] = record.additional_finish_reasons[number]
        if pairs is not None:
            candidate["chosen"] = sum(_says(chosen, text) for chosen, _ in drawn)
            candidate["rejected"] = sum(_says(rejected, text) for _, rejected in drawn)
        if record.task is not None and dialogue is not None:
            word = oracle_word(record.task, dialogue, text)
            if word:
                candidate["oracle"] = word
        if credit and number in credit:
            candidate["credit"] = credit[number]
        shown.append(candidate)
    return shown


def pair_view(pair: PreferencePair) -> dict:
    """Two texts as messages, with how many of the first ones they share: {id, chosen, rejected, shared, fields}."""
    chosen, rejected = messages_of(pair.chosen), messages_of(pair.rejected)
    prompt = longest_untrained(pair)
    return {
        "id": pair.id,
        "chosen": numbered(chosen),
        "rejected": numbered(rejected),
        "shared": shared_messages(chosen, rejected),
        "prompt": prompt,
        "fields": pair.extra,
    }


def longest_untrained(pair: PreferencePair) -> str:
    """The exact text of the chosen side, markup included: what training sees."""
    return pair.chosen if isinstance(pair.chosen, str) else parts_text(pair.chosen)


def numbered(messages: list[dict]) -> list[dict]:
    """The messages, the agent's with their turn."""
    turn = 0
    for message in messages:
        if message["role"] == "assistant":
            message["turn"] = turn
            turn += 1
    return messages


def shared_messages(one: Sequence[dict], other: Sequence[dict]) -> int:
    """How many messages two dialogues begin with alike."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if (a["role"], a["text"]) != (b["role"], b["text"]):
            break
        shared += 1
    return shared


def utf16_length(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def title_of(text: str) -> str:
    """The beginning of a description on one line."""
    line = " ".join(text[: 4 * TITLE].split())
    return line if len(line) <= TITLE else line[: TITLE - 1] + "…"


def _rounded(value: float) -> float:
    return round(value, 4)


def _last_text(text: str | list[Part]) -> str:
    if isinstance(text, str):
        return text
    return next((part["text"] for part in reversed(text) if part["train"]), "")


def _says(text: str, candidate: str) -> bool:
    """Whether a pair's text is this candidate; it may end with the end-of-turn marker after it."""
    return text == candidate or bool(re.fullmatch(r"<[^\s<>]{1,30}>|\[[^\s\[\]]{1,30}\]", text.removeprefix(candidate)))
