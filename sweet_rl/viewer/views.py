"""Records as the page shows them: plain JSON, in which every text stays text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sweet_rl.dialogues.backend.extract_code import code_candidates, function_name
from sweet_rl.method.turn_pairs import halves
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.runs.records import RELEASED, Part, PreferencePair, Task, Trajectory, TurnCandidates
from sweet_rl.viewer.messages import messages_of

TITLE, SHORT_TITLE = 160, 24  # characters
LONGEST_CODE = 200_000  # characters; a longer answer is shown as it is
TEST_FIELDS = ("passed", "reason", "message", "expected", "got")
EXPECTED_AND_GOT = re.compile(r"expected (.*), got (.*)", re.DOTALL)


def trajectory_view(
    trajectory: Trajectory,
    credit: Mapping[int, dict] | None = None,
    candidates: Mapping[int, list[dict]] | None = None,
) -> dict:
    """A dialogue as {id, task, messages, answer, code, reward, ending, failure, grade, prompt, fields}.

    Args:
        trajectory: The dialogue.
        credit: Credit of each turn, as kept by `credit_file`.
        candidates: The `candidates_view` of each turn.

    Returns:
        `messages` are {role, text, turn?, finish?, prompt?, credit?, oracle?, candidates?}; the agent's turns count
        from 0. The top-level `prompt` is the longest exact prompt. The `prompt` of a message is the number of UTF-16
        units of it that the agent was given, or a text of its own if the longest prompt does not begin with it.
    """
    prompts = exact_prompts(trajectory)
    longest = max((p for p in prompts if p is not None), key=len, default=None)
    messages: list[dict] = []
    turn = 0
    for row in trajectory.dialogue_history:
        message: dict[str, Any] = {"role": row["role"], "text": row["content"]}
        if row["role"] == "assistant":
            message["turn"] = turn
            if row.get("finish_reason"):
                message["finish"] = row["finish_reason"]
            prompt = prompts[turn]
            if prompt is not None:
                message["prompt"] = utf16_length(prompt) if longest and longest.startswith(prompt) else prompt
            if credit and turn in credit:
                message["credit"] = credit[turn]
            if candidates and turn in candidates:
                message["candidates"] = candidates[turn]
            if word := oracle_word(row):
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


def grade_view(trajectory: Trajectory) -> dict | None:
    """The grade as {failure, ungradable, machine, level, tests}; None if the task has no tests or is a page.

    A test is {name, call} and, if it was run, the fields of TEST_FIELDS.
    """
    grade = trajectory.grade
    grade = grade if isinstance(grade, dict) else {}
    calls = trajectory.task.test_cases
    if not calls and (not grade or "similarity" in grade):
        return None
    results = grade.get("tests")
    found = {t.get("name"): t for t in results if isinstance(t, dict)} if isinstance(results, list) else {}
    tests = [_test(name, call, found.get(name, {})) for name, call in calls.items()]
    return {name: grade.get(name) for name in ("failure", "ungradable", "machine", "level")} | {"tests": tests}


def _test(name: str, call: str, result: dict) -> dict:
    test = {"name": name, "call": call}
    test |= {key: result[key] for key in TEST_FIELDS if result.get(key) is not None}
    if test.get("reason") == "wrong value" and "expected" not in test and "got" not in test:
        if found := EXPECTED_AND_GOT.fullmatch(str(test.get("message", ""))):
            test["expected"], test["got"] = found[1], found[2]
            del test["message"]
    return test


def answer_code(trajectory: Trajectory) -> str | None:
    """The code in the answer that the grader runs; the whole answer if it holds no code; None without an answer."""
    answer = trajectory.answer
    if answer is None or (trajectory.ending == "turn_limit" and trajectory.protocol != RELEASED):
        return None
    if len(answer) > LONGEST_CODE:
        return answer
    function = function_name(trajectory.task.ground_truth, trajectory.task.test_cases)
    return next(iter(code_candidates(answer, function)), answer)


def task_view(task: Task) -> dict:
    """A task as {id, title, description, truth, hidden?}; `hidden` lists the topics of a mini task's hidden rules."""
    words = task.problem_description
    view: dict[str, Any] = {"id": task.id, "title": title_of(words), "description": words, "truth": task.ground_truth}
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


def oracle_word(message: Mapping[str, Any]) -> str | None:
    """The oracle's word on a turn of the agent, recorded with the message; None if there is none."""
    word = message.get("oracle")
    return word if isinstance(word, str) and word else None


def exact_prompts(trajectory: Trajectory) -> list[str | None]:
    """For each turn of the agent the exact text that it was given; None if the file does not hold it."""
    from_parts: list[str | None] = []
    before = ""
    for part in trajectory.parts or ():
        if part["train"]:
            from_parts.append(before)
        before += part["text"]
    rows = [row for row in trajectory.dialogue_history if row["role"] == "assistant"]
    recorded = [given if isinstance(given, str) else None for given in (row.get("input") for row in rows)]
    from_parts = from_parts if len(from_parts) == len(rows) else [None] * len(rows)
    return [given if given is not None else part for given, part in zip(recorded, from_parts, strict=True)]


def candidates_view(
    record: TurnCandidates,
    pairs: Sequence[PreferencePair] | None = None,
    credit: Mapping[int, dict] | None = None,
) -> list[dict]:
    """The candidates of a turn, best first if they are ranked.

    Args:
        record: The candidates.
        pairs: The pairs drawn from this turn, if they are known.
        credit: Credit of each candidate, by its number.

    Returns:
        {text, number, score?, half?, finish?, chosen?, rejected?, credit?} per candidate. `half` is the half of the
        ranking: chosen, rejected, or middle, which is never drawn. `chosen` and `rejected` count the pairs that the
        candidate is in.
    """
    order = record.judge_result or range(len(record.additional_outputs))
    top, bottom = halves(record.judge_result or [])
    drawn = [(_last_text(pair.chosen), _last_text(pair.rejected)) for pair in pairs or ()]
    shown = []
    for number in order:
        text = record.additional_outputs[number]
        candidate: dict[str, Any] = {"text": text, "number": number}
        if record.judge_scores is not None:
            candidate["score"] = round(record.judge_scores[number], 4)
        if record.judge_result is not None:
            candidate["half"] = "chosen" if number in top else "rejected" if number in bottom else "middle"
        if record.additional_finish_reasons is not None:
            candidate["finish"] = record.additional_finish_reasons[number]
        if pairs is not None:
            candidate["chosen"] = sum(_is_candidate(chosen, text) for chosen, _ in drawn)
            candidate["rejected"] = sum(_is_candidate(rejected, text) for _, rejected in drawn)
        if credit and number in credit:
            candidate["credit"] = credit[number]
        shown.append(candidate)
    return shown


def pair_view(pair: PreferencePair) -> dict:
    """A pair as {id, title, chosen, rejected, shared, prompt, fields}: both texts as messages.

    `shared` is the number of first messages that are the same; `prompt` the exact chosen text, markup included.
    """
    chosen, rejected = messages_of(pair.chosen), messages_of(pair.rejected)
    return {
        "id": pair.id,
        "title": title_of(opening(chosen)),
        "chosen": numbered(chosen),
        "rejected": numbered(rejected),
        "shared": shared_messages(chosen, rejected),
        "prompt": pair.chosen if isinstance(pair.chosen, str) else parts_text(pair.chosen),
        "fields": pair.extra,
    }


def opening(messages: Sequence[dict]) -> str:
    """The text that a dialogue begins with, after its instructions; "" if there is none."""
    return next((message["text"] for message in messages if message["role"] in ("user", "text")), "")


def numbered(messages: list[dict]) -> list[dict]:
    """The messages themselves; those of the agent get their `turn`, from 0."""
    turn = 0
    for message in messages:
        if message["role"] == "assistant":
            message["turn"] = turn
            turn += 1
    return messages


def shared_messages(one: Sequence[dict], other: Sequence[dict]) -> int:
    """The number of messages that two dialogues share at their beginning."""
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
    """The first line of a description, cut between two words; with the next lines if it is very short.

    A function's signature is often a line of its own after the wish; cut within its brackets it would say nothing.
    """
    title = ""
    for line in text.lstrip()[: 4 * TITLE].splitlines():
        title = f"{title} {' '.join(line.split())}".strip()
        if len(title) >= SHORT_TITLE:
            break
    return title if len(title) <= TITLE else title[:TITLE].rsplit(" ", 1)[0] + "…"


def _last_text(text: str | list[Part]) -> str:
    if isinstance(text, str):
        return text
    return next((part["text"] for part in reversed(text) if part["train"]), "")


def _is_candidate(text: str, candidate: str) -> bool:
    """Whether a pair's text is this candidate, with or without an end-of-turn marker after it."""
    marker = r"(?:<[^\s<>]{1,30}>|\[[^\s\[\]]{1,30}\])?"
    return text.startswith(candidate) and bool(re.fullmatch(marker, text[len(candidate) :]))
