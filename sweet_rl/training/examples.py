"""Records -> encoded texts: what is too long loses its oldest turns or is left out, by choice, and is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sweet_rl.chat import ChatFormat, parts_from_text
from sweet_rl.errors import UserError
from sweet_rl.records import Part, PreferencePair, Trajectory
from sweet_rl.scoring.privileged_information import with_hint
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.scoring.trajectory_parts import trajectory_parts
from sweet_rl.training.shorten import turn_starts, turns_to_leave_out, without_oldest_turns

TOO_LONG = ("drop", "oldest_turns")
DROPPED, SHORTENED = "longer than max_len, left out", "longer than max_len, oldest turns left out"
EQUAL = "chosen equals rejected, left out"


@dataclass(frozen=True)
class DataSettings:
    """How records become examples.

    response_template: the markup that opens an agent's turn, for rows whose texts are plain strings. max_len: the
    most tokens of a text. too_long: what becomes of an example with a longer one, "drop" or "oldest_turns".
    max_samples: so many records from the file's beginning. eval_fraction: of the tasks, held out for evaluation.
    """

    response_template: str | None = None
    max_len: int | None = None
    too_long: str = "drop"
    max_samples: int | None = None
    eval_fraction: float = 0.0

    def __post_init__(self) -> None:
        if self.too_long not in TOO_LONG:
            raise UserError(f"--too_long is {self.too_long!r}; it must be {' or '.join(TOO_LONG)}.")
        if not 0 <= self.eval_fraction < 1:
            raise UserError(f"--eval_fraction is {self.eval_fraction}; it must be at least 0 and below 1.")
        if self.max_len is not None and self.max_len < 2:
            raise UserError(f"--max_len is {self.max_len}; it must be at least 2.")


@dataclass
class PreferenceExamples:
    """texts: the distinct texts. pairs: int64 [P, 2], indices of (chosen, rejected). tasks: each pair's task, None
    where the row does not say. counts: what happened -> to how many pairs.
    """

    texts: list[EncodedText]
    pairs: np.ndarray
    tasks: list[str | None]
    counts: Counter

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def prompts(self) -> list[bytes]:
        """What each pair's chosen text begins with."""
        return [self.texts[chosen].prompt for chosen, _ in self.pairs]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each pair's longer text."""
        return [max(len(self.texts[i]) for i in pair) for pair in self.pairs]


@dataclass
class DialogueExamples:
    """Whole dialogues: their texts, 1.0 for each that succeeded (reward 1) and else 0.0, their tasks, and what
    happened -> to how many."""

    texts: list[EncodedText]
    labels: list[float]
    tasks: list[str | None]
    counts: Counter

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def prompts(self) -> list[bytes]:
        """What each dialogue begins with, up to the agent's first turn."""
        return [text.prompt for text in self.texts]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each dialogue."""
        return [len(text) for text in self.texts]


class Encoder:
    """Texts of records -> EncodedText."""

    def __init__(self, chat: ChatFormat, data: DataSettings | None = None):
        self.chat, self.data = chat, data or DataSettings()

    def parts(self, text: str | list[Part], where: str) -> list[Part]:
        """Raises UserError naming `where` for a string without a response template."""
        if not isinstance(text, str):
            return text
        if not self.data.response_template:
            raise UserError(
                f"{where}: a plain string, which does not say what the agent wrote. Give "
                "--response_template, the markup that opens the agent's turns."
            )
        try:
            return parts_from_text(text, self.data.response_template, self.chat.eos_text, self.chat.bos_text)
        except UserError as error:
            raise UserError(f"{where}: {error}") from error

    def encode(self, parts: list[Part], tokenizer: str | None, where: str) -> EncodedText:
        """Raises UserError naming `where` where there is nothing to train on."""
        return EncodedText.build(*self.chat.encode(parts, tokenizer), where)

    def fitting(
        self, texts: list[list[Part]], tokenizer: str | None, places: list[str], counts: Counter
    ) -> list[EncodedText] | None:
        """The texts of one example, encoded and none too long; None if it must be left out. Texts that differ in
        their last turn only (turn pairs) lose the same turns. Raises UserError as `encode` does."""
        encoded = [self.encode(parts, tokenizer, place) for parts, place in zip(texts, places, strict=True)]
        most = self.data.max_len
        if most is None or max(map(len, encoded)) <= most:
            return encoded
        if self.data.too_long == "drop":
            counts[DROPPED] += 1
            return None
        out = [
            turns_to_leave_out(parts, lambda left, place=place: len(self.encode(left, tokenizer, place)), most)
            for parts, place in zip(texts, places, strict=True)
        ]
        if None in out:
            counts[DROPPED] += 1
            return None
        if all(sum(part["train"] for part in parts) == 1 for parts in texts):
            out = [min(max(out), len(turn_starts(parts)) - 1) for parts in texts]
        counts[SHORTENED] += 1
        shorter = [without_oldest_turns(parts, count) for parts, count in zip(texts, out, strict=True)]
        return [self.encode(parts, tokenizer, place) for parts, place in zip(shorter, places, strict=True)]


def encode_pairs(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> PreferenceExamples:
    """Pairs of two equal texts are left out and counted; equal texts of different pairs are one text.

    Raises UserError naming the pair that has nothing to train on, and if no pair is left.
    """
    encoder, counts = Encoder(chat, data), Counter()
    texts: list[EncodedText] = []
    index: dict[bytes, int] = {}
    kept, tasks = [], []
    for pair in pairs:
        places = [f"{path}, pair {pair.id!r}, {name!r}" for name in ("chosen", "rejected")]
        parts = [encoder.parts(text, place) for text, place in zip((pair.chosen, pair.rejected), places, strict=True)]
        both = encoder.fitting(parts, pair.tokenizer, places, counts)
        if both is None:
            continue
        if both[0].key == both[1].key:
            counts[EQUAL] += 1
            continue
        for text in both:
            if text.key not in index:
                index[text.key] = len(texts)
                texts.append(text)
        kept.append([index[text.key] for text in both])
        tasks.append(pair.task_id)
    if not kept:
        raise UserError(_nothing_left(path, len(pairs), "pairs", counts, data))
    return PreferenceExamples(texts, np.asarray(kept, dtype=np.int64), tasks, counts)


def encode_trajectories(
    trajectories: Iterable[Trajectory],
    chat: ChatFormat,
    data: DataSettings,
    path: str = "the dataset",
    hint: bool = False,
) -> DialogueExamples:
    """Whole dialogues, every agent turn trained; with `hint` the reference solution stands before them.

    Raises UserError naming the dialogue that has nothing to train on, and if none is left.
    """
    encoder, found, seen = Encoder(chat, data), DialogueExamples([], [], [], Counter()), 0
    for trajectory in trajectories:
        seen += 1
        where = f"{path}, trajectory {trajectory.id!r}"
        if not any(message["role"] == "assistant" for message in trajectory.dialogue_history):
            raise UserError(f"{where}: nothing to train on, the agent never speaks in it.")
        parts = trajectory_parts(trajectory, chat, data.response_template)
        if hint:
            parts = with_hint(parts, trajectory.task.ground_truth)
        fitting = encoder.fitting([parts], trajectory.tokenizer, [where], found.counts)
        if fitting is not None:
            found.texts += fitting
            found.labels.append(float(trajectory.reward == 1.0))
            found.tasks.append(trajectory.task.id)
    if not found.texts:
        raise UserError(_nothing_left(path, seen, "trajectories", found.counts, data))
    return found


def _nothing_left(path: str, count: int, what: str, counts: Counter, data: DataSettings) -> str:
    reasons = "; ".join(f"{n} {why}" for why, n in counts.items()) or "the file is empty"
    return f"{path}: none of its {count} {what} can be trained on ({reasons}; --max_len is {data.max_len})."
