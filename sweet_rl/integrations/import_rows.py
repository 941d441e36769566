"""Rows of other trainers as records: TRL's conversational preference, SFT and KTO rows, ShareGPT, and verl."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweet_rl.integrations.export import SIDES, shared_messages
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import RecordError, UserError, first_line, read_by_library
from sweet_rl.runs.records import Message, Part, PreferencePair, Trajectory, content_id, parse_row, read_json, scan_rows
from sweet_rl.runs.records.checks import refuse, shown
from sweet_rl.runs.records.schema import Role
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, run_step

ROLES: dict[Any, Role] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}
DIALOGUES = ("messages", "conversations")
BESIDE = ("tool_calls", "function_call", "reasoning_content", "reasoning", "thinking")  # fields of a message
Row = dict[str, Any]


def holds_rows(path: str | Path) -> bool:
    """Whether a file has rows of other trainers; the other ones are logs of verifiers or inspect_ai."""
    suffix = Path(path).suffix
    if suffix not in (".json", ".jsonl") or not Path(path).is_file():
        return suffix == ".parquet"
    if suffix == ".json" and _is_array(path):
        return True
    try:
        row = next((row for _, _, row in scan_rows(path)), {})
    except RecordError:
        if suffix == ".jsonl":
            raise
        return False  # a log of inspect_ai: one object on many lines
    return any(name in row for name in ("chosen", "completion", *DIALOGUES))


def _is_array(path: str | Path) -> bool:
    """Whether a file of JSON is one array. `Dataset.to_json` writes lines of JSON into a file .json too."""
    with open(path, "rb") as text:
        return text.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["


def import_rows(input_path: str, output_path: str, step: StepSettings, tokenizer: str | None = None) -> dict:
    """Write the rows of another trainer as pairs, if they have `chosen`, else as trajectories.

    Args:
        input_path: Rows, JSONL or parquet.
        output_path: The records.
        step: Whether an older output is replaced.
        tokenizer: Model whose chat template lays out the texts of pairs.

    Returns:
        The summary: records, demonstrations (dialogues without a reward, which get reward 1).

    Raises:
        UserError: A row that is of none of these kinds, named by its place; or pairs without a tokenizer.
    """
    rows = [(where, _with_facts(row)) for where, row in _read(input_path)]
    pairs = bool(rows) and "chosen" in rows[0][1]
    for where, row in rows:
        if ("chosen" in row) != pairs:
            raise RecordError(
                f"{where}: this row has {'no' if pairs else 'a'} 'chosen', unlike the first one. Split the file "
                "into pairs and dialogues."
            )
    if pairs and tokenizer is None:
        raise UserError(
            f"{input_path} holds pairs, whose texts have the markup of a chat template: give --tokenizer MODEL, the "
            "model that is trained on them."
        )
    chat = ChatFormat.from_pretrained(tokenizer) if tokenizer and pairs else None
    records: dict[str, dict] = {}
    for where, row in rows:
        row |= {name: str(row[name]) for name in ("id", "task_id") if row.get(name) is not None}
        record = _trajectory(row, where) if chat is None else _pair(row, where, chat)
        copies = (number for number in itertools.count() if f"{record.id}-{number}" not in records)
        if not row.get("id"):
            record.id = f"{record.id}-{next(copies)}"
        elif record.id in records:
            raise RecordError(f"{where}: the id {record.id!r} was in an earlier row. Remove 'id' from all rows.")
        records[record.id] = record.to_dict()

    def write(run: Run) -> dict:
        run.write_missing(records.values())
        demonstrations = 0 if pairs else sum(_reward(row) is None for _, row in rows)
        return {"records": len(records), "demonstrations": demonstrations}

    def show(summary: dict) -> None:
        print(f"{output_path}: {summary['records']} {'pairs' if pairs else 'dialogues'}")
        if count := summary["demonstrations"]:
            print(f"{count} dialogues have no reward: they are taken for demonstrations, with reward 1.")

    inputs = [input_path, tokenizer and model_input(tokenizer)]
    return run_step(open_run(output_path, to_settings(tokenizer=tokenizer), inputs, step.overwrite), write, show)


def _read(path: str) -> Iterator[tuple[str, Row]]:
    suffix = Path(path).suffix
    if suffix != ".parquet" and not (suffix == ".json" and _is_array(path)):
        yield from ((f"{path}, line {number}", row) for number, _, row in scan_rows(path))
        return
    with read_by_library(lambda error: UserError(f"{path} is no {suffix[1:]} file of rows ({first_line(error)}).")):
        if suffix == ".json":
            table = read_json(Path(path).read_text(encoding="utf-8-sig"))
        else:
            from pyarrow import parquet

            table = parquet.read_table(path).to_pylist()
    for number, row in enumerate(table):
        if not isinstance(row, dict):
            raise RecordError(f"{path}, row {number}: found {shown(row)}, expected an object with named fields.")
        yield f"{path}, row {number}", row


def _with_facts(row: Row) -> Row:
    """A row of verl with what its `extra_info` says of the task; any other row as it is."""
    facts = row.get("extra_info")
    return facts | row if isinstance(facts, dict) else row


def _pair(row: Row, where: str, chat: ChatFormat) -> PreferencePair:
    prompt = _prompt(row, where) or _messages(row, "conversations", where)
    sides = [_messages(row, side, where) for side in SIDES]
    for side, own in zip(SIDES, sides, strict=True):
        if not own or len(prompt) + len(own) < 2 or own[-1]["role"] != "assistant":
            raise RecordError(
                f"{where}: {side!r} with its prompt must be a dialogue that ends with a message of the assistant."
            )
    whole = [dialogue for own in sides if (dialogue := _whole(own, prompt)) is not None]
    if len(whole) == len(sides):
        texts, prompt = whole, []
    elif prompt and (whole or prompt[-1]["role"] == "assistant" or any(own[0]["role"] != "assistant" for own in sides)):
        raise RecordError(
            f"{where}: 'chosen' and 'rejected' must both begin with the messages of the prompt, or both with the "
            "assistant's reply to its last message. Leave 'prompt' out if both hold the whole dialogue."
        )
    else:
        texts = [[*prompt, *own] for own in sides]
    texts = [_with_system(messages, row, where) for messages in texts]
    start = len(texts[0]) - len(sides[0]) if prompt else shared_messages(*texts)
    chosen, rejected = (_parts(messages, start, chat) for messages in texts)
    task = row.get("task_id") or content_id(texts[0][:start])
    return PreferencePair(chosen, rejected, id=row.get("id") or "", task_id=task)


def _prompt(row: Row, where: str) -> list[Message]:
    """The messages of the prompt; a text is what the user says."""
    text = row.get("prompt")
    return [{"role": "user", "content": text}] if isinstance(text, str) and text else _messages(row, "prompt", where)


def _whole(messages: list[Message], prompt: list[Message]) -> list[Message] | None:
    """A dialogue that begins with a prompt, with the system message that one of them may lack; None if it does not."""
    if not prompt:
        return None
    opened, opening = ([one for one in some[:1] if one["role"] == "system"] for some in (messages, prompt))
    spoken, asked = messages[len(opened) :], prompt[len(opening) :]
    if spoken[: len(asked)] != asked or (opened and opening and opened != opening):
        return None
    return [*(opened or opening), *spoken]


def _with_system(messages: list[Message], row: Row, where: str) -> list[Message]:
    """The messages behind the system message of the row's column `system`, which stands there once."""
    text = row.get("system")
    if not text:
        return messages
    if not isinstance(text, str):
        refuse(where, "system", text, "a text")
    own: Message = {"role": "system", "content": text}
    if messages[0]["role"] == "system" and messages[0] != own:
        raise RecordError(
            f"{where}: the dialogue has a system message, and 'system' is another. Leave one of them out."
        )
    return messages if messages[0] == own else [own, *messages]


def _parts(messages: list[Message], start: int, chat: ChatFormat) -> list[Part]:
    """The parts of a dialogue, of which the turns of the assistant from message `start` on are trained."""
    earlier = sum(message["role"] == "assistant" for message in messages[:start])
    parts = chat.dialogue(messages)
    for part in [part for part in parts if part["train"]][:earlier]:
        part |= {"train": False, "turn": True}
    return parts


def _trajectory(row: Row, where: str) -> Trajectory:
    messages = _dialogue(row, where)
    first = next((message["content"] for message in messages if message["role"] == "user"), "")
    tests = row.get("test_cases")
    task = {
        "problem_description": row.get("problem_description") or first,
        "ground_truth": row.get("ground_truth") or "",
        "test_cases": parse_row(tests, f"{where}, 'test_cases'") if isinstance(tests, str) else tests or {},
    }
    task["id"] = row.get("task_id") or content_id(list(task.values()))
    reward = _reward(row)
    known = {"task": task, "dialogue_history": messages, "reward": 1.0 if reward is None else reward}
    known["id"] = row.get("id") or task["id"]
    return Trajectory.from_dict(known | {"turn_credit": row.get("turn_credit"), "answer": row.get("answer")}, where)


def _dialogue(row: Row, where: str) -> list[Message]:
    """The messages of a dialogue: of one column, or of a prompt and its completion."""
    name = next((name for name in DIALOGUES if row.get(name)), None)
    if name is not None:
        messages = _messages(row, name, where)
        if not any(message["role"] == "assistant" for message in messages):
            raise RecordError(f"{where}: {name!r} has no message of the assistant, so there is nothing to train on.")
        return _with_system(messages, row, where)
    if not row.get("completion"):
        raise RecordError(
            f"{where}: the row has none of 'messages', 'conversations', 'completion' and 'chosen' with a message in it "
            f"(fields found: {', '.join(map(repr, row)) or 'none'}). docs/files.md shows the rows that are read."
        )
    prompt, completion = (_messages(row, side, where) for side in ("prompt", "completion"))
    if [message["role"] for message in completion] != ["assistant"] or not prompt:
        raise RecordError(f"{where}: 'completion' must be one message of the assistant, and 'prompt' those before it.")
    if any(message["role"] == "assistant" for message in prompt):
        raise RecordError(
            f"{where}: 'prompt' has messages of the assistant. Such a row trains its completion only, but a trajectory "
            "is trained in all of them: give whole dialogues as 'messages'."
        )
    return _with_system([*prompt, *completion], row, where)


def _reward(row: Row) -> Any:
    """The reward of a dialogue, or KTO's label of it; None if it has neither."""
    found = (row.get(name) for name in ("reward", "label", "kto_tag"))
    reward = next((one for one in found if one is not None), None)
    return float(reward) if isinstance(reward, bool) else reward


def _joined(content: Any) -> Any:
    """The text of a content in parts of text alone; any other content as it is."""
    if not isinstance(content, list):
        return content
    texts = [piece["text"] for piece in content if isinstance(piece, dict) and isinstance(piece.get("text"), str)]
    return "".join(texts) if len(texts) == len(content) else content


def _messages(row: Row, name: str, where: str) -> list[Message]:
    """The messages of a field, {role, content} or {from, value}; none if the field is missing."""
    found = row.get(name) or []
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list):
        raise RecordError(
            f"{where}: {name!r} is {shown(found)}; it must be a list of messages {{role, content}}. "
            "(train_dpo.py takes pairs of plain texts that have their chat markup.)"
        )
    messages: list[Message] = []
    for number, one in enumerate(found):
        place = f"{where}, {name}[{number}]"
        one = one if isinstance(one, dict) else {}
        given, content = (
            one[name] if one.get(name) is not None else one.get(other)
            for name, other in (("role", "from"), ("content", "value"))
        )
        role = ROLES.get(given) if isinstance(given, str) else None
        content = _joined(content)
        if role is None or not isinstance(content, str):
            raise RecordError(
                f"{place}: {shown(found[number])}; it must be {{role, content}} or {{from, value}} with a text "
                f"and one of the roles {', '.join(ROLES)}. Leave dialogues with tools or pictures out."
            )
        if one.get("weight") == 0 or one.get("train") is False:
            raise RecordError(f"{place} is marked as not trained, which has no place here. Leave the dialogue out.")
        if lost := [name for name in BESIDE if one.get(name)]:
            raise RecordError(f"{place} has {lost[0]!r} beside its text, which would be lost. Leave the dialogue out.")
        if messages and role == messages[-1]["role"] == "assistant":
            raise RecordError(f"{place}: a second message of the assistant in a row. Join the two, or leave it out.")
        messages.append({"role": role, "content": content})
    return messages
