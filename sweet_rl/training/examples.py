"""Records -> encoded examples: which are left out, and which tasks are held out."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import (
    Markup,
    TextMarkup,
    check_turn_ends,
    given_markup,
    last_reply_parts,
    parts_from_text,
    trajectory_parts,
)
from sweet_rl.models.weights import check_length
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part, PreferencePair, Trajectory, seed_for
from sweet_rl.training.settings import DataSettings

log = logging.getLogger(__name__)
DROPPED = "longer than max_len, left out"
EQUAL = "chosen equals rejected, left out (train_sft.py imitates such rows)"
EMPTY = "with a text in which the agent says nothing (cut before its first token), left out"
NO_EOS = "whose last turn has no end-of-turn token, trained without one (it was cut, or the file has none; the release "
NO_EOS += "appends one)"
Hint = Callable[[Sequence[Part], str], list[Part]]
"""Function of the parts of a dialogue and of its reference solution: the parts that show it."""


@dataclass
class Examples:
    """Examples, each of one text (a dialogue) or of two (a pair).

    Attributes:
        texts: The distinct texts.
        rows: int64 [N, k], the numbers of the texts of each example; of a pair (chosen, rejected).
        tasks: Each example's task; None if its row does not name one.
        counts: Number of examples by what happened to them.
        labels: 1.0 for each dialogue that succeeded (reward 1), else 0.0.
    """

    texts: list[EncodedText]
    rows: np.ndarray
    tasks: list[str | None]
    counts: Counter = field(default_factory=Counter)
    labels: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def prompts(self) -> list[bytes]:
        """A digest of the prompt of each example's first text."""
        return [self.texts[first].prompt for first in self.rows[:, 0]]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each example's longest text."""
        return [max(len(self.texts[i]) for i in row) for row in self.rows]


@dataclass
class Row:
    """What `encode` makes an example of.

    Attributes:
        texts: Parts of each text.
        places: Name of each text, for errors.
        tokenizer: Fingerprint of the tokenizer of their token ids.
        task: Id of the task.
        label: Label of the example.
    """

    texts: list[list[Part]]
    places: list[str]
    tokenizer: str | None
    task: str | None
    label: float = 1.0


class Encoder:
    """Encodes the texts of records, by one chat format and the settings of the data."""

    def __init__(self, chat: ChatFormat, data: DataSettings | None = None):
        self.chat, self.data = chat, data or DataSettings()
        self._announced = False

    def parts(self, text: str | list[Part], where: str) -> list[Part]:
        """The parts of a text. Raises UserError naming `where` for a string without a response template."""
        if not isinstance(text, str):
            return text
        if not self.data.response_template:
            raise UserError(
                f"{where}: a plain string, which does not say what the agent wrote. Give "
                "--response_template, the markup that opens the agent's turns."
            )
        try:
            return _with_reply(parts_from_text(text, given_markup(self.data.response_template, self.chat)))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error

    def pair_parts(self, pair: PreferencePair, places: list[str]) -> list[list[Part]]:
        """The parts of both texts. Of strings without a response template, what follows their beginning is trained.

        Raises UserError naming a place if it is not known what the agent wrote.
        """
        texts = [pair.chosen, pair.rejected]
        strings = [text for text in texts if isinstance(text, str)]
        if self.data.response_template or len(strings) < 2:
            return [self.parts(text, place) for text, place in zip(texts, places, strict=True)]
        if not self._announced:
            self._announced = True
            log.warning(
                "no --response_template: the agent's reply is what follows the last %r that chosen and rejected share "
                "(chat template of %s)",
                self.chat.reply_header,
                self.chat.name,
            )
        split = last_reply_parts(strings, Markup.of(self.chat), places[0])
        return [_with_reply(parts) for parts in split]

    def encode(self, parts: list[Part], tokenizer: str | None, where: str) -> EncodedText | None:
        """The ids and the mask of trained tokens; None if the agent's turns have no token.

        Raises:
            UserError: No part is trained, or a turn ends with the marker of another family. It names `where`.
        """
        check_turn_ends(parts, self.chat, where)
        ids, train = self.chat.encode(parts, tokenizer, where)
        if not any(train) and any(part["train"] for part in parts):
            return None
        return EncodedText.build(ids, train, where)

    def fitting(self, row: Row, counts: Counter) -> list[EncodedText] | None:
        """The texts of one example; None if the example must be left out.

        Args:
            row: The example.
            counts: Is updated with what happened.

        Raises:
            UserError: There is nothing to train on, or a text that max_len allows is longer than the model's context.
        """
        encoded = [self.encode(parts, row.tokenizer, place) for parts, place in zip(row.texts, row.places, strict=True)]
        texts = [text for text in encoded if text is not None]
        if len(texts) < len(encoded):
            counts[EMPTY] += 1
            return None
        most, context = self.data.max_len, self.chat.context
        if most is not None and max(map(len, texts)) > most:
            counts[DROPPED] += 1
            return None
        for text, place in zip(texts, row.places, strict=True):
            check_length(len(text), context, place, f"Give --max_len {context}: such examples are left out.")
        return texts


def ends_open(texts: Iterable[EncodedText], chat: ChatFormat) -> bool:
    """Whether one of the texts does not end with an end-of-turn token."""
    return any(text.ids[-1] not in chat.eos_ids for text in texts)


def encode(rows: Iterable[Row], encoder: Encoder, path: str, what: str, once: bool = False) -> Examples:
    """Encode examples. Equal texts of different examples are one text; pairs of two equal texts are left out.

    Args:
        rows: The examples.
        encoder: Encodes their texts.
        path: Path of the dataset, for errors.
        what: Word for the examples, for errors.
        once: Whether an example whose first text is in an earlier one is left out.

    Raises:
        UserError: A text has nothing to train on (it is named), or no example is left.
    """
    examples = Examples([], np.zeros((0, 1), dtype=np.int64), [])
    numbers: dict[bytes, int] = {}
    kept, seen = [], 0
    for row in rows:
        seen += 1
        texts = encoder.fitting(row, examples.counts)
        if texts is None or (once and texts[0].key in numbers):
            continue
        if len(texts) == 2 and texts[0].key == texts[1].key:
            examples.counts[EQUAL] += 1
            continue
        if ends_open(texts, encoder.chat):
            examples.counts[NO_EOS] += 1
        for text in texts:
            if text.key not in numbers:
                numbers[text.key] = len(examples.texts)
                examples.texts.append(text)
        kept.append([numbers[text.key] for text in texts])
        examples.tasks.append(row.task)
        examples.labels.append(row.label)
    if not kept:
        reasons = "; ".join(f"{n} {why}" for why, n in examples.counts.items()) or "the file is empty"
        most = encoder.data.max_len
        raise UserError(f"{path}: none of its {seen} {what} can be trained on ({reasons}; --max_len is {most}).")
    examples.rows = np.asarray(kept, dtype=np.int64)
    return examples


def encode_pairs(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> Examples:
    """Encode pairs: an example has the texts (chosen, rejected). Raises as `encode` does."""
    encoder = Encoder(chat, data)
    return encode((_row_of(pair, encoder, path) for pair in pairs), encoder, path, "pairs")


def encode_replies(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> Examples:
    """Encode the chosen texts of pairs, each once, to imitate them. Raises as `encode` does."""
    encoder = Encoder(chat, data)

    def rows() -> Iterator[Row]:
        for pair in pairs:
            row = _row_of(pair, encoder, path)
            yield Row(row.texts[:1], row.places[:1], row.tokenizer, row.task)

    return encode(rows(), encoder, path, "texts", once=True)


def encode_trajectories(
    trajectories: Iterable[Trajectory],
    chat: ChatFormat,
    data: DataSettings,
    path: str = "the dataset",
    hint: Hint | None = None,
) -> Examples:
    """Encode whole dialogues, every turn of the agent trained.

    `hint` puts the reference solution in front of each dialogue; None leaves it out. Raises as `encode` does.
    """
    markup = TextMarkup(chat, data.response_template)

    def rows() -> Iterator[Row]:
        for trajectory in trajectories:
            where = trajectory.place("trajectory", path)
            if not any(message["role"] == "assistant" for message in trajectory.dialogue_history):
                raise UserError(f"{where}: nothing to train on, the agent never speaks in it.")
            parts = trajectory_parts(trajectory, markup)
            if hint is not None:
                parts = hint(parts, trajectory.task.ground_truth)
            yield Row([parts], [where], trajectory.tokenizer, trajectory.task.id, float(trajectory.reward == 1.0))

    return encode(rows(), Encoder(chat, data), path, "trajectories")


def _row_of(pair: PreferencePair, encoder: Encoder, path: str) -> Row:
    places = [f"{pair.place('pair', path)}, {name!r}" for name in ("chosen", "rejected")]
    return Row(encoder.pair_parts(pair, places), places, pair.tokenizer, pair.task_id)


def _with_reply(parts: list[Part]) -> list[Part]:
    """The parts of a plain text; one that ends with the header of a reply has an empty reply."""
    return parts if any(part["train"] for part in parts) else [*parts, {"text": "", "train": True}]


def successful(trajectories: Sequence[Trajectory], min_reward: float, path: str) -> list[Trajectory]:
    """Graded trajectories with at least `min_reward`. Raises UserError if there is none."""
    rewards = [t.reward for t in trajectories if t.is_graded and t.reward is not None]
    if not rewards:
        raise UserError(f"{path}: no trajectory has a reward. Run evaluate_code.py on it first.")
    kept = [t for t in trajectories if t.is_graded and t.reward is not None and t.reward >= min_reward]
    if not kept:
        raise UserError(
            f"{path}: none of {len(rewards)} graded trajectories reaches --min_reward {min_reward} "
            f"(best: {max(rewards)})."
        )
    return kept


def split_by_task(
    tasks: Sequence[str | None], fraction: float, seed: int, path: str = "the dataset"
) -> tuple[np.ndarray, np.ndarray]:
    """Examples to train on and examples to evaluate on. Siblings (examples of one task) are on the same side.

    Args:
        tasks: each example's task.
        fraction: share of the tasks that is held out; 0 holds out none.
        seed: decides which tasks.
        path: Path of the dataset, for errors.

    Returns:
        Two int64 arrays of indices, each ascending.

    Raises:
        UserError: an example's task is not known, or there is only one task.
    """
    everything = np.arange(len(tasks))
    if fraction == 0:
        return everything, everything[:0]
    unknown = next((i for i, task in enumerate(tasks) if task is None), None)
    if unknown is not None:
        raise UserError(
            f"{path}: example {unknown + 1} has no 'task_id', so its siblings are not known and might be trained on. "
            "Give every row its task's id, or leave out --eval_fraction."
        )
    names = sorted({task for task in tasks if task is not None})
    if len(names) < 2:
        raise UserError(f"{path}: all examples are of one task; --eval_fraction needs two or more.")
    random.Random(seed_for(seed, "eval_fraction")).shuffle(names)
    held_out = set(names[: min(len(names) - 1, max(1, round(fraction * len(names))))])
    mask = np.asarray([task in held_out for task in tasks])
    return everything[~mask], everything[mask]
