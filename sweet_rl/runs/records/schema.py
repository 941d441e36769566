"""What each record holds. Pydantic checks a record when it is read; one that is made by code is not checked.

Null is absent, as in files that went through `datasets`. What is read is written back as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import AllowInfNan, BeforeValidator, Field, Strict, StrictBool, StrictInt, WrapValidator, model_validator
from typing_extensions import TypedDict  # pydantic does not take the one of Python 3.11

from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records.ids import content_id
from sweet_rl.runs.records.released import candidates_row, pair_row
from sweet_rl.runs.records.validation import check_lengths, shown, validated

if TYPE_CHECKING:
    from typing import Self

Role = Literal["system", "user", "assistant"]
Ending = Literal["answered", "turn_limit", "failed"]
RELEASED = "released"
"""Name of the published protocol, in which the agent sees of its earlier replies what the human saw."""


def _without_nulls(value: Any) -> Any:
    return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Number = Annotated[float, Strict(), AllowInfNan(False)]
Whole = Annotated[int, Strict(), BeforeValidator(_whole)]
"""A whole number; 3.0 too, which tables make of a column with nulls."""
Reward = Annotated[Number, Field(ge=0, le=1)]
AsRead = WrapValidator(lambda value, check: (check(value), value)[1])
"""Keeps a checked value as it was read: 1 stays 1, and the fields of a message keep their order and those unknown."""
NullIsAbsent = BeforeValidator(_without_nulls)


class Part(TypedDict):
    """A piece of a text that a model is trained on; see the docstring of the package."""

    text: str
    train: StrictBool
    token_ids: NotRequired[list[StrictInt] | None]
    plain: NotRequired[StrictBool | None]
    bos: NotRequired[StrictBool | None]
    turn: NotRequired[StrictBool | None]


class Message(TypedDict):
    """A message of a dialogue.

    `input` is the prompt of a turn of the agent as text, `output` the turn as sampled, `token_ids` its ids with the EOS
    if one was produced, `logprobs` the log-probs with which these were sampled, `oracle` the opinion of the domain's
    oracle on that turn. `templated`: the chat template may change the content, for example strip it.
    """

    role: Role
    content: str
    input: NotRequired[str | None]
    output: NotRequired[str | None]
    token_ids: NotRequired[list[StrictInt] | None]
    logprobs: NotRequired[list[Number] | None]
    finish_reason: NotRequired[str | None]
    oracle: NotRequired[str | None]
    templated: NotRequired[StrictBool | None]


def as_shown(messages: Sequence[Message]) -> list[Message]:
    """The messages as the agent of the released protocol sees them: of its earlier replies, their `content`."""
    return [*map(_shown, messages[:-1]), *messages[-1:]]


def _shown(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    if message["content"] == message.get("output"):
        return {**message, "templated": True}
    return {"role": "assistant", "content": message["content"], "templated": True}


class Failure(TypedDict, total=False):
    """Why a dialogue failed: one word, what happened, and the side that failed."""

    kind: str
    message: str
    side: str


def _with_extra(cls: type[_Record], row: Any) -> Any:
    """A row as the fields of a record: those that it does not know in `extra`, and none that is null."""
    if not isinstance(row, dict):
        return row
    known = {one.name for one in fields(cls)} - {"extra"}
    values = {name: value for name, value in row.items() if name in known and value is not None}
    return values | {"extra": {name: value for name, value in row.items() if name not in known}}


@dataclass
class _Record:
    _always_written: ClassVar[tuple[str, ...]] = ()
    why_none: ClassVar[str] = "Was the step that writes it finished?"
    where = ""  # file and line, of a record that was read from one

    @classmethod
    def from_dict(cls, row: dict, where: str = "a record") -> Self:
        """The record of a row.

        Args:
            row: one line of a file as JSON.
            where: its place, for the error.

        Raises:
            RecordError: a missing field or one of the wrong kind.
        """
        return validated(cls, row, where)

    def place(self, name: str, path: str | None = None) -> str:
        """Where the record is, for an error: file and line, or else `path`; then `name` and its id."""
        return ", ".join([*filter(None, [self.where or path]), f"{name} {getattr(self, 'id')!r}"])  # noqa: B009

    def to_dict(self) -> dict:
        """The row of the record: `id` first, no field that is None, and the unknown fields as they were read."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        unknown = values.pop("extra")
        row: dict[str, Any] = {"id": values.pop("id")}
        for name, value in values.items():
            if value is not None or name in self._always_written:
                row[name] = value.to_dict() if isinstance(value, Task) else value
        return row | {name: value for name, value in unknown.items() if name not in row}


@dataclass
class Task(_Record):
    """One task of a domain.

    Attributes:
        problem_description: what the agent is asked for (o_1 of the paper).
        ground_truth: the reference solution (c), seen by the human and the grader, never by the policy.
        test_cases: test calls by name; empty for Frontend Design.
        id: default: `content_id` of these three.
    """

    problem_description: str
    ground_truth: str
    test_cases: Annotated[dict[str, str], NullIsAbsent] = field(default_factory=dict)
    id: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    _read = model_validator(mode="before")(_with_extra)

    def __post_init__(self) -> None:
        self.id = self.id or content_id([self.problem_description, self.ground_truth, self.test_cases])

    @property
    def content(self) -> tuple[str, str, frozenset[tuple[str, str]]]:
        """What makes two tasks the same, whatever their ids."""
        return self.problem_description, self.ground_truth, frozenset(self.test_cases.items())


@dataclass
class Trajectory(_Record):
    """One dialogue about a task, how it ended, and its reward.

    Attributes:
        dialogue_history: all messages, those of the agent with their samples.
        reward: A number from 0 to 1; None until the dialogue is graded.
        ending: answered, turn_limit (also if the dialogue outgrew the agent's context), failed, or None (unknown,
            released files).
        failure: {kind, message, side} of a dialogue that failed.
        parts: the dialogue as the model saw it.
        tokenizer: fingerprint of the tokenizer of all token ids.
        grade: evidence for the reward (`domain.Grade.as_dict`).
        usage: tokens by side: {"agent": {"prompt_tokens", "completion_tokens"}, "human": ...}; null if not known.
        leaks: number of the human's replies that gave the reference solution away.
        human: {name, hash} of the simulated human (`Domain.human_identity`).
        protocol: Name of the protocol of the dialogue (`Domain.protocol`); None if it is not known.
        turn_credit: a critic's score of each turn of the agent (score_turns.py).
    """

    task: Task
    dialogue_history: Annotated[list[Message], AsRead]
    answer: str | None = None
    reward: Annotated[Reward | None, AsRead] = None
    id: str = ""
    ending: Ending | None = None
    failure: Annotated[Failure | None, NullIsAbsent, AsRead] = None
    parts: Annotated[list[Part] | None, AsRead] = None
    tokenizer: str | None = None
    grade: dict | None = None
    usage: Annotated[dict[str, dict[str, Whole | None]] | None, NullIsAbsent] = None
    leaks: Whole | None = None
    human: Annotated[dict[str, str] | None, NullIsAbsent] = None
    protocol: str | None = None
    turn_credit: Annotated[list[Number] | None, AsRead] = None
    extra: dict[str, Any] = field(default_factory=dict)

    _read = model_validator(mode="before")(_with_extra)

    _always_written: ClassVar[tuple[str, ...]] = ("answer", "reward")

    def __post_init__(self) -> None:
        self.id = self.id or f"{self.task.id}-0"

    @classmethod
    def from_dict(cls, row: dict, where: str = "a trajectory") -> Self:
        """As `_Record.from_dict`; raises RecordError also for a message with more or fewer log-probs than token ids. A
        released row, which does not name its protocol, gets it."""
        record = super().from_dict(row, where)
        if record.protocol is None and record.ending is None and _has_instructions_apart(record):
            record.protocol = RELEASED
        for number, message in enumerate(record.dialogue_history):
            check_lengths(message.get("logprobs"), message.get("token_ids"), f"{where}, dialogue_history[{number}]")
        return record

    def seen(self, count: int) -> list[Message]:
        """The first `count` messages as the agent saw them; a reply that is the last of them as it was sampled."""
        messages = self.dialogue_history[:count]
        return as_shown(messages) if self.protocol == RELEASED else messages

    @property
    def is_graded(self) -> bool:
        """Whether the dialogue has a reward that counts: it did not fail and its task can be graded."""
        return self.ending != "failed" and self.reward is not None

    @property
    def turns(self) -> int:
        """Number of messages of the agent, the answer included."""
        return sum(message["role"] == "assistant" for message in self.dialogue_history)

    @property
    def human_label(self) -> str | None:
        """The human who replied, "name (hash)" or "not recorded"; None if no human replied in this dialogue."""
        roles = [message["role"] for message in self.dialogue_history]
        if ("assistant", "user") not in zip(roles, roles[1:], strict=False):
            return None
        human = self.human
        return "not recorded" if human is None else f"{human.get('name')} ({human.get('hash', '')[:8]})"


def _has_instructions_apart(trajectory: Trajectory) -> bool:
    """Whether the dialogue begins with the bare description, and the agent's prompt has a system message before it."""
    history, description = trajectory.dialogue_history, trajectory.task.problem_description
    if not history or history[0]["role"] != "user" or history[0]["content"] != description:
        return False
    prompt = next((message.get("input") for message in history if message["role"] == "assistant"), None)
    return isinstance(prompt, str) and "system" in prompt.partition(description.strip())[0]


@dataclass
class TurnCandidates(_Record):
    """Several candidates for one turn (written by step 4), and their order by the critic (step 5).

    Attributes:
        input: the prompt of the turn.
        older_output: what the agent said in the dialogue.
        additional_outputs: the candidates.
        additional_reference_logprobs: per candidate the sampling log-probs of its tokens, or their mean.
        judge_result: indices of `additional_outputs`, best first.
        judge_scores: Scores in the order of `additional_outputs`; higher is better.
        task: in released files it has the solution only.
        turn: None in released files.
        dialogue: the messages before the turn.
        eos_text: text that ends a turn of the model that was sampled.
        answer_rewards: Per candidate its reward if it answers (grade_candidates.py); None if it does not, or if its
            task cannot be graded.
    """

    input: Annotated[list[Part] | str, AsRead]
    older_output: str
    additional_outputs: list[str]
    additional_reference_logprobs: Annotated[list[list[Number]] | list[Number] | None, AsRead] = None
    judge_result: list[StrictInt] | None = None
    id: str = ""
    task: Task | None = None
    turn: Whole | None = None
    additional_token_ids: list[list[StrictInt]] | None = None
    additional_finish_reasons: list[str] | None = None
    judge_scores: Annotated[list[Number] | None, AsRead] = None
    tokenizer: str | None = None
    dialogue: Annotated[list[Message] | None, AsRead] = None
    eos_text: str | None = None
    answer_rewards: Annotated[list[Reward | None] | None, AsRead] = None
    extra: dict[str, Any] = field(default_factory=dict)

    _per_candidate: ClassVar[tuple[str, ...]] = (
        "additional_reference_logprobs",
        "additional_token_ids",
        "additional_finish_reasons",
        "answer_rewards",
        "judge_scores",
        "judge_result",
    )

    def __post_init__(self) -> None:
        self.id = self.id or content_id([self.input, self.older_output, self.additional_outputs])

    @model_validator(mode="before")
    @classmethod
    def _read(cls, row: Any) -> Any:
        return _with_extra(cls, candidates_row(row) if isinstance(row, dict) else row)

    @classmethod
    def from_dict(cls, row: dict, where: str = "candidates") -> Self:
        """As `Trajectory.from_dict`; raises RecordError also for lists of different numbers of candidates."""
        record = super().from_dict(row, where)
        count = len(record.additional_outputs)
        for name in cls._per_candidate:
            values = getattr(record, name)
            if values is not None and len(values) != count:
                raise RecordError(
                    f"{where}: the field {name!r} has {len(values)} entries for {count} additional_outputs; it must "
                    "have one for each."
                )
        record.check_logprobs(where)
        if record.judge_result is not None and sorted(record.judge_result) != list(range(count)):
            raise RecordError(
                f"{where}: the field 'judge_result' is {shown(record.judge_result)}; it must have each of "
                f"0..{count - 1} once, best first."
            )
        return record

    def produced(self, number: int) -> bool:
        """Whether candidate `number` has a token: not if it is empty and was cut, or is stored without tokens."""
        if self.additional_outputs[number]:
            return True
        stored = (self.additional_token_ids, self.additional_reference_logprobs)
        known = [values[number] for values in stored if values is not None and isinstance(values[number], list)]
        reasons = self.additional_finish_reasons
        return all(known) if known else reasons is None or reasons[number] == "stop"

    def with_tokens(self) -> list[int]:
        """The numbers of the candidates that have a token."""
        return [number for number in range(len(self.additional_outputs)) if self.produced(number)]

    def without_empty(self) -> Self:
        """The record with the candidates that have a token; unranked if one has none.

        Unknown fields `additional_...` with an entry for each candidate lose the same entries.
        """
        kept, count = self.with_tokens(), len(self.additional_outputs)
        if len(kept) == count:
            return self
        record = replace(self)
        record.where = self.where
        for name in ("additional_outputs", *self._per_candidate):
            values = getattr(self, name)
            setattr(record, name, values and [values[number] for number in kept])
        record.extra = dict(self.extra)
        for name, values in self.extra.items():
            if name.startswith("additional_") and isinstance(values, list) and len(values) == count:
                record.extra[name] = [values[number] for number in kept]
        record.judge_scores = record.judge_result = None
        return record

    def check_logprobs(self, where: str) -> None:
        """Raise RecordError naming the place if a candidate's log-probs are not one for each of its token ids."""
        pairs = zip(self.additional_reference_logprobs or (), self.additional_token_ids or (), strict=False)
        for number, (logprobs, ids) in enumerate(pairs):
            check_lengths(logprobs, ids, f"{where}, candidate {number}")


@dataclass
class PreferencePair(_Record):
    """Two texts, prompt included, of which the first is preferred: trajectory pairs (step 2), turn pairs (step 6).

    Attributes:
        chosen: the preferred text; a string (released files) is split into parts with a response template.
        rejected: the other text.
        tokenizer: fingerprint of the tokenizer of the parts' token ids.
        task_id: the task of the pair.
    """

    chosen: Annotated[list[Part] | str, AsRead]
    rejected: Annotated[list[Part] | str, AsRead]
    id: str = ""
    tokenizer: str | None = None
    task_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    why_none: ClassVar[str] = (
        "No task has two dialogues of which one is preferred: with reward 1 and below, or at least min_gap apart if "
        "--min_gap or the domain gives one. Collect more dialogues per task (--best_of_n), or give a smaller --min_gap."
    )

    def __post_init__(self) -> None:
        self.id = self.id or content_id([self.chosen, self.rejected])

    @model_validator(mode="before")
    @classmethod
    def _read(cls, row: Any) -> Any:
        return _with_extra(cls, pair_row(row) if isinstance(row, dict) else row)
