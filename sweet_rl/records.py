"""Task, Trajectory, TurnCandidates, PreferencePair: every line of every file, checked when it is read.

Files are UTF-8 JSONL with the released field names, flat. Fields that a record does not know travel along in
`extra` and are written back beside the others. A text that a model is trained on is a list of parts:

    {"text": str, "train": bool, "token_ids"?: list[int], "plain"?: bool, "bos"?: bool, "turn"?: bool}

`train` marks what the loss sees; `token_ids` are the ids as sampled (of the tokenizer whose fingerprint the
record names); `plain` text never becomes a special token, whatever it spells; `bos` marks the begin-of-text
part; `turn` an earlier turn of the agent that is history here.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from sweet_rl.errors import RecordError

Part = dict[str, Any]
ROLES = ("system", "user", "assistant")
ENDINGS = ("answered", "turn_limit", "failed")


def content_id(value: Any, sample: int | None = None) -> str:
    """A value's id: 16 hex digits of the SHA-256 of its canonical JSON, and `-sample` where one is given."""
    digest = hashlib.sha256(_canonical(value)).hexdigest()[:16]
    return digest if sample is None else f"{digest}-{sample}"


def hash_rows(rows: Iterable[Any]) -> str:
    """The SHA-256 (64 hex digits) of a sequence of JSON values, order included."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(_canonical(row) + b"\n")
    return digest.hexdigest()


def seed_for(seed: int, *keys: Any) -> int:
    """One record's seed in [0, 2**63): the same for the same run seed and keys, on every machine."""
    return int.from_bytes(hashlib.sha256(_canonical([seed, *keys])).digest()[:8], "big") >> 1


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


@dataclass
class Task:
    """What the agent is asked for, and what only the simulated human and the grader know (o_1 and c)."""

    problem_description: str
    ground_truth: str
    test_cases: dict[str, str] = field(default_factory=dict)
    id: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = self.id or content_id([self.problem_description, self.ground_truth, self.test_cases])

    @classmethod
    def from_dict(cls, row: dict, where: str = "a task") -> "Task":
        """Raises RecordError. Tasks without tests (frontend) have none; a grader that needs them says so."""
        take = _Fields(row, where)
        return cls(
            problem_description=take.text("problem_description"),
            ground_truth=take.text("ground_truth"),
            test_cases=take.checked("test_cases", _is_text_map, "an object of text by test name", default={}),
            id=take.text("id", default=""),
            extra=take.rest(cls),
        )

    def to_dict(self) -> dict:
        return _flat(self)


@dataclass
class Trajectory:
    """One dialogue about one task, how it ended and what it earned.

    dialogue_history rows: {role, content, input?, output?, token_ids?, finish_reason?, logprobs?}; `output`
    is the text as sampled, `token_ids` its ids with the EOS if one was produced. `ending` is answered,
    turn_limit, failed or, in released files, unknown (None); `failure` = {kind, message, side} says why it
    failed. `reward` is None until it is graded, `grade` the evidence for it (`rewards.base.Grade.as_dict`).
    `tokenizer` is the fingerprint of the ids' tokenizer. `usage` counts tokens by side: {"agent": {"prompt_tokens",
    "completion_tokens"}, "human": ...}; `leaks` the human's replies that gave the reference solution away.
    """

    task: Task
    dialogue_history: list[dict]
    answer: str | None = None
    reward: float | None = None
    id: str = ""
    ending: str | None = None
    failure: dict | None = None
    parts: list[Part] | None = None
    tokenizer: str | None = None
    grade: dict | None = None
    usage: dict | None = None
    leaks: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = self.id or f"{self.task.id}-0"

    @classmethod
    def from_dict(cls, row: dict, where: str = "a trajectory") -> "Trajectory":
        """Raises RecordError. Without an id it is sample 0 of its task; `read_records` numbers siblings."""
        take = _Fields(row, where)
        return cls(
            task=Task.from_dict(take.checked("task", _is_map, "an object"), f"{where}, in 'task'"),
            dialogue_history=_messages(
                take.checked("dialogue_history", _is_maps, "a list of objects"), where
            ),
            answer=take.text("answer", default=None),
            reward=take.checked("reward", _is_number, "a number", default=None),
            id=take.text("id", default=""),
            ending=take.checked(
                "ending", lambda v: v in ENDINGS, f"one of {', '.join(ENDINGS)}", default=None
            ),
            failure=take.checked("failure", _is_map, "an object {kind, message, side}", default=None),
            parts=take.parts("parts", default=None),
            tokenizer=take.text("tokenizer", default=None),
            grade=take.checked("grade", _is_map, "an object {failure, ungradable, ...}", default=None),
            usage=take.checked("usage", _is_usage, "an object {agent: {prompt_tokens, ...}, human: ...}", default=None),
            leaks=take.checked("leaks", _is_int, "a whole number", default=None),
            extra=take.rest(cls),
        )

    @property
    def is_graded(self) -> bool:
        """Whether the dialogue has a reward that counts: it did not fail and its task can be graded."""
        return self.ending != "failed" and self.reward is not None

    @property
    def turns(self) -> int:
        """Number of messages of the agent, the answer included."""
        return sum(message["role"] == "assistant" for message in self.dialogue_history)

    def to_dict(self) -> dict:
        return _flat(self, always=("answer", "reward"))


@dataclass
class TurnCandidates:
    """What else the agent could have said at one turn (PAPER step 3), and the critic's order (step 4).

    input: the prompt of the turn. additional_reference_logprobs: for each candidate the sampling log-probs of
    its tokens, or their mean. judge_result: indices of additional_outputs, best first; judge_scores in the
    order of additional_outputs. `task` and `turn` may be missing from files made elsewhere. `dialogue` holds the
    messages before the turn, and `eos_text` the text that ends a turn of the model that was sampled.
    """

    input: str | list[Part]
    older_output: str
    additional_outputs: list[str]
    additional_reference_logprobs: list[list[float]] | list[float] | None = None
    judge_result: list[int] | None = None
    id: str = ""
    task: Task | None = None
    turn: int | None = None
    additional_token_ids: list[list[int]] | None = None
    additional_finish_reasons: list[str] | None = None
    judge_scores: list[float] | None = None
    tokenizer: str | None = None
    dialogue: list[dict] | None = None
    eos_text: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = self.id or content_id([self.input, self.older_output, self.additional_outputs])

    @classmethod
    def from_dict(cls, row: dict, where: str = "candidates") -> "TurnCandidates":
        """Raises RecordError, also where two lists do not speak of the same number of candidates."""
        take = _Fields(row, where)
        task = take.checked("task", _is_map, "an object", default=None)
        dialogue = take.checked("dialogue", _is_maps, "a list of objects", default=None)
        record = cls(
            input=take.text_or_parts("input"),
            older_output=take.text("older_output"),
            additional_outputs=take.checked("additional_outputs", _list_of(_is_text), "a list of texts"),
            additional_reference_logprobs=take.checked(
                "additional_reference_logprobs",
                lambda v: _list_of(_is_number)(v) or _list_of(_list_of(_is_number))(v),
                "a list of numbers, or of lists of numbers",
                default=None,
            ),
            judge_result=take.checked(
                "judge_result", _list_of(_is_int), "a list of whole numbers", default=None
            ),
            id=take.text("id", default=""),
            task=None if task is None else Task.from_dict(task, f"{where}, in 'task'"),
            turn=take.checked("turn", _is_int, "a whole number", default=None),
            additional_token_ids=take.checked(
                "additional_token_ids",
                _list_of(_list_of(_is_int)),
                "a list of lists of token ids",
                default=None,
            ),
            additional_finish_reasons=take.checked(
                "additional_finish_reasons", _list_of(_is_text), "a list of texts", default=None
            ),
            judge_scores=take.checked(
                "judge_scores", _list_of(_is_number), "a list of numbers", default=None
            ),
            tokenizer=take.text("tokenizer", default=None),
            dialogue=None if dialogue is None else _messages(dialogue, where, "dialogue"),
            eos_text=take.text("eos_text", default=None),
            extra=take.rest(cls),
        )
        count = len(record.additional_outputs)
        for name in _PER_CANDIDATE:
            values = getattr(record, name)
            if values is not None and len(values) != count:
                take.fail(
                    name, f"{len(values)} entries for {count} additional_outputs", "one entry per candidate"
                )
        if record.judge_result is not None and sorted(record.judge_result) != list(range(count)):
            take.fail("judge_result", record.judge_result, f"each of 0..{count - 1} once, best first")
        return record

    def to_dict(self) -> dict:
        return _flat(self)


_PER_CANDIDATE = (
    "additional_reference_logprobs",
    "additional_token_ids",
    "additional_finish_reasons",
    "judge_scores",
    "judge_result",
)


@dataclass
class PreferencePair:
    """Two texts, prompt included, of which the first is preferred (trajectory pairs, PAPER step 1; turn
    pairs, 5).

    Strings (released files) are turned into parts with a response template before training; `tokenizer` is
    the fingerprint of the tokenizer that the parts' token_ids belong to. `task_id` says whose pair it is, so that
    training can hold out whole tasks.
    """

    chosen: str | list[Part]
    rejected: str | list[Part]
    id: str = ""
    tokenizer: str | None = None
    task_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = self.id or content_id([self.chosen, self.rejected])

    @classmethod
    def from_dict(cls, row: dict, where: str = "a preference pair") -> "PreferencePair":
        """Raises RecordError."""
        take = _Fields(row, where)
        return cls(
            chosen=take.text_or_parts("chosen"),
            rejected=take.text_or_parts("rejected"),
            id=take.text("id", default=""),
            tokenizer=take.text("tokenizer", default=None),
            task_id=take.text("task_id", default=None),
            extra=take.rest(cls),
        )

    def to_dict(self) -> dict:
        return _flat(self)


Record = TypeVar("Record", Task, Trajectory, TurnCandidates, PreferencePair)


def read_records(path: str | Path, kind: type[Record], limit: int | None = None) -> list[Record]:
    """The records of a JSONL file, the first `limit` of them if given; the file is checked as far as it is
    read.

    Rows without an id (released files) get their content's: trajectories `task-0`, `task-1`, ... in the
    file's order; of other records that say the same twice, the later ones get `-1`, `-2`, ....

    Raises RecordError naming file, line, field, what was found and what to do: missing or empty file, broken
    JSON, missing field, wrong type, the same id twice.
    """
    return [record for _, record in scan_records(path, kind, limit)]


def scan_records(
    path: str | Path, kind: type[Record], limit: int | None = None
) -> Iterator[tuple[int, Record]]:
    """`read_records` one by one, each with the byte at which its line starts, for files too large to be held.

    Raises RecordError as `read_records` does, when the bad line is reached.
    """
    if limit is not None and limit < 1:
        raise RecordError(f"{path}: {limit} records were asked for; ask for at least 1, or for all (None).")
    line_of: dict[str, int] = {}
    copies: dict[str, int] = {}
    for number, start, row in islice(_rows(path), limit):
        where = f"{path}, line {number}"
        record = kind.from_dict(row, where)
        if not row.get("id"):
            base = record.task.id if isinstance(record, Trajectory) else record.id
            copy = copies.get(base, 0)
            copies[base] = copy + 1
            if copy or isinstance(record, Trajectory):
                record.id = f"{base}-{copy}"
        if record.id in line_of:
            raise RecordError(
                f"{where}: the id {record.id!r} is on line {line_of[record.id]} too. Ids tell records apart "
                "when a run is continued: give each row its own, or remove the field 'id' from all rows."
            )
        line_of[record.id] = number
        yield start, record
    if not line_of:
        raise RecordError(f"{path}: the file has no records. Was the step that writes it finished?")


def _rows(path: str | Path) -> Iterator[tuple[int, int, dict]]:
    if not Path(path).is_file():
        found = "is a directory" if Path(path).is_dir() else "does not exist"
        raise RecordError(f"{path} {found}. A JSONL file of records was expected: check the path.")
    end = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            start, end = end, end + len(line)
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line.strip():
                continue
            yield number, start, parse_row(line, f"{path}, line {number}")


def parse_row(line: bytes | str, where: str) -> dict:
    """One line of JSON as a dict. Raises RecordError for broken JSON, NaN, bad UTF-8, all but an object."""
    try:
        row = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        found = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise RecordError(
            f"{where}: not a line of JSON ({found}). Each line must be one JSON object: repair or remove it."
        ) from error
    if not isinstance(row, dict):
        raise RecordError(f"{where}: found {_shown(row)}, expected a JSON object with named fields.")
    return row


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _Fields:
    """Takes checked fields out of one row, naming place, field, finding and remedy where it cannot."""

    def __init__(self, row: dict, where: str):
        if not isinstance(row, dict):
            raise RecordError(f"{where}: found {_shown(row)}, expected an object with named fields.")
        self.row, self.where = row, where

    def checked(self, name: str, check, expected: str, **default) -> Any:
        value = self.row.get(name)
        if value is None and default:
            return default["default"]
        if name not in self.row:
            have = ", ".join(map(repr, self.row)) or "none"
            raise RecordError(
                f"{self.where}: the field {name!r} is missing (fields found: {have}). It must be {expected}. "
                "Is this the right file for this step?"
            )
        if not check(value):
            self.fail(name, value, expected)
        return value

    def fail(self, name: str, value: Any, expected: str) -> None:
        raise RecordError(f"{self.where}: the field {name!r} is {_shown(value)}; it must be {expected}.")

    def text(self, name: str, **default) -> Any:
        return self.checked(name, _is_text, "text", **default)

    def parts(self, name: str, **default) -> Any:
        return self.checked(name, _is_parts, _PARTS, **default)

    def text_or_parts(self, name: str) -> Any:
        return self.checked(name, lambda v: _is_text(v) or _is_parts(v), f"text or {_PARTS}")

    def rest(self, kind: type) -> dict:
        known = {f.name for f in fields(kind)} - {"extra"}
        return {name: value for name, value in self.row.items() if name not in known}


_PARTS = "a list of parts {text, train, token_ids?}"
_MESSAGE_FIELDS = {
    "output": (lambda v: _is_text(v), "text"),
    "token_ids": (lambda v: _list_of(_is_int)(v), "a list of token ids"),
    "logprobs": (lambda v: _list_of(_is_number)(v), "a list of numbers"),
    "finish_reason": (lambda v: _is_text(v), "text"),
}


def _messages(history: list[dict], where: str, name: str = "dialogue_history") -> list[dict]:
    for index, message in enumerate(history):
        take = _Fields(message, f"{where}, {name}[{index}]")
        take.checked("role", lambda v: v in ROLES, f"one of {', '.join(ROLES)}")
        take.text("content")
        for key, (check, expected) in _MESSAGE_FIELDS.items():
            take.checked(key, check, expected, default=None)
    return history


def _flat(record: Any, always: tuple[str, ...] = ()) -> dict:
    row: dict[str, Any] = {"id": record.id}
    for name in (f.name for f in fields(record) if f.name != "extra"):
        value = getattr(record, name)
        if value is not None or name in always:
            row[name] = value.to_dict() if isinstance(value, Task) else value
    return row | {name: value for name, value in record.extra.items() if name not in row}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    kind = {
        str: "text",
        bool: "true/false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    if value is None:
        return "null"
    return f"{kind.get(type(value), type(value).__name__)} {text if len(text) <= 80 else text[:77] + '...'}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _list_of(check):
    return lambda value: isinstance(value, list) and all(check(v) for v in value)


_is_maps = _list_of(_is_map)


def _is_usage(value: Any) -> bool:
    return _is_map(value) and all(_is_map(side) and all(map(_is_int, side.values())) for side in value.values())


def _is_part(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("text"), str)
        and isinstance(value.get("train"), bool)
        and (value.get("token_ids") is None or _list_of(_is_int)(value["token_ids"]))
    )


def _is_parts(value: Any) -> bool:
    return _list_of(_is_part)(value)
