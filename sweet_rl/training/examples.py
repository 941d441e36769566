"""Records -> encoded examples, and which are left out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

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
from sweet_rl.runs.records import Part, PreferencePair, Trajectory
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
        counts: Number of examples by what happened to them.
        labels: 1.0 for each dialogue that succeeded (reward 1), else 0.0.
        pictures: The PNG file in front of each text; empty if there are none.
    """

    texts: list[EncodedText]
    rows: np.ndarray
    counts: Counter = field(default_factory=Counter)
    labels: list[float] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def prompts(self) -> list[bytes]:
        """For each example's first text the picture's name and a digest of the prompt."""
        pictures = [path.name.encode() for path in self.pictures] or [b""] * len(self.texts)
        return [pictures[first] + self.texts[first].prompt for first in self.rows[:, 0]]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each example's longest text."""
        return [max(len(self.texts[i]) for i in row) for row in self.rows]


@dataclass
class Row:
    """What `encode` makes an example of.

    Attributes:
        texts: The texts; None for one in which the agent says nothing.
        places: Name of each text, for errors.
        label: Label of the example.
        picture: Picture in front of each text.
    """

    texts: list[EncodedText | None]
    places: list[str]
    label: float = 1.0
    picture: Path | None = None


def encode(
    rows: Iterable[Row], chat: ChatFormat, data: DataSettings, path: str, what: str, counts: Counter | None = None
) -> Examples:
    """Encode examples. Equal texts of different examples are one text; pairs of two equal texts are left out.

    `path` and `what`, a word for the examples, are for errors; `counts` has examples that were left out before.

    Raises:
        UserError: A text that max_len allows is longer than the model's context, or no example is left.
    """
    examples = Examples([], np.zeros((0, 1), dtype=np.int64), Counter() if counts is None else counts)
    numbers: dict[tuple[Path | None, bytes], int] = {}
    remedy = f"Give --max_len {chat.context}: such examples are left out."
    kept: list[list[int]] = []
    seen = 0
    for row in rows:
        seen += 1
        texts = [text for text in row.texts if text is not None]
        if len(texts) < len(row.texts):
            examples.counts[EMPTY] += 1
        elif data.max_len is not None and max(map(len, texts)) > data.max_len:
            examples.counts[DROPPED] += 1
        elif len(texts) == 2 and texts[0].key == texts[1].key:
            examples.counts[EQUAL] += 1
        else:
            for text, place in zip(texts, row.places, strict=True):
                check_length(len(text), chat.context, place, remedy)
                if (row.picture, text.key) not in numbers:
                    numbers[row.picture, text.key] = len(examples.texts)
                    examples.texts.append(text)
                    if row.picture is not None:
                        examples.pictures.append(row.picture)
            if any(text.ids[-1] not in chat.eos_ids for text in texts):
                examples.counts[NO_EOS] += 1
            kept.append([numbers[row.picture, text.key] for text in texts])
            examples.labels.append(row.label)
    if not kept:
        reasons = "; ".join(f"{n} {why}" for why, n in examples.counts.items()) or "the file is empty"
        raise UserError(
            f"{path}: none of its {seen} {what} can be trained on ({reasons}; --max_len is {data.max_len})."
        )
    examples.rows = np.asarray(kept, dtype=np.int64)
    return examples


def encode_pairs(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> Examples:
    """Encode pairs: an example has the texts (chosen, rejected). Raises as `encode` and `pair_parts` do."""

    def rows() -> Iterator[Row]:
        for pair in pairs:
            parts, places = pair_parts(pair, chat, data, path)
            texts = [encode_text(*text, chat, pair.tokenizer) for text in zip(parts, places, strict=True)]
            yield Row(texts, places)

    return encode(rows(), chat, data, path, "pairs")


def encode_replies(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> Examples:
    """Encode the chosen texts of pairs, each once, to imitate them. Raises as `encode_pairs` does."""

    def rows() -> Iterator[Row]:
        seen = set()
        for pair in pairs:
            (chosen, _), (place, _) = pair_parts(pair, chat, data, path)
            text = encode_text(chosen, place, chat, pair.tokenizer)
            if text is None or text.key not in seen:
                yield Row([text], [place])
            if text is not None:
                seen.add(text.key)

    return encode(rows(), chat, data, path, "texts")


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
            if not trajectory.turns:
                raise UserError(f"{where}: nothing to train on, the agent never speaks in it.")
            parts = trajectory_parts(trajectory, markup)
            if hint is not None:
                parts = hint(parts, trajectory.task.ground_truth)
            text = encode_text(parts, where, chat, trajectory.tokenizer)
            yield Row([text], [where], float(trajectory.reward == 1.0))

    return encode(rows(), chat, data, path, "trajectories")


def encode_text(parts: list[Part], where: str, chat: ChatFormat, tokenizer: str | None) -> EncodedText | None:
    """The ids and the mask of trained tokens; None if the agent's turns have no token.

    Raises UserError naming `where` if no part is trained, or a turn ends with the marker of another family.
    """
    check_turn_ends(parts, chat, where)
    ids, train = chat.encode(parts, tokenizer, where)
    if not any(train) and any(part["train"] for part in parts):
        return None
    return EncodedText.build(ids, train, where)


def pair_parts(
    pair: PreferencePair, chat: ChatFormat, data: DataSettings, path: str
) -> tuple[list[list[Part]], list[str]]:
    """The parts of both texts of a pair, and their places for errors.

    In plain strings (released files) the text after each `response_template` is trained; without one, what follows the
    last header that both share. Raises UserError naming a place if it is not known what the agent wrote.
    """
    places = [f"{pair.place('pair', path)}, {name!r}" for name in ("chosen", "rejected")]
    texts = [pair.chosen, pair.rejected]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) == 2 and not data.response_template:
        _announce(chat.reply_header, chat.name)
        return [_with_reply(parts) for parts in last_reply_parts(strings, Markup.of(chat), places[0])], places
    return [_parts(text, chat, data, place) for text, place in zip(texts, places, strict=True)], places


@cache
def _announce(header: str, name: str) -> None:
    """Warn once which part of plain strings is trained."""
    log.warning(
        "no --response_template: the agent's reply is what follows the last %r that chosen and rejected share (chat "
        "template of %s)",
        header,
        name,
    )


def _parts(text: str | list[Part], chat: ChatFormat, data: DataSettings, where: str) -> list[Part]:
    """The parts of a text. Raises UserError naming `where` for a string without a response template."""
    if not isinstance(text, str):
        return text
    if not data.response_template:
        raise UserError(
            f"{where}: a plain string, which does not say what the agent wrote. Give --response_template, the markup "
            "that opens the agent's turns."
        )
    try:
        return _with_reply(parts_from_text(text, given_markup(data.response_template, chat)))
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _with_reply(parts: list[Part]) -> list[Part]:
    """The parts of a plain text; one that ends with the header of a reply has an empty reply."""
    return parts if any(part["train"] for part in parts) else [*parts, {"text": "", "train": True}]


def successful(trajectories: Sequence[Trajectory], min_reward: float, path: str) -> list[Trajectory]:
    """Graded trajectories with at least `min_reward`. Raises UserError if there is none."""
    rewards = [one.reward for one in trajectories if one.is_graded and one.reward is not None]
    if not rewards:
        raise UserError(f"{path}: no trajectory has a reward. Run evaluate_code.py on it first.")
    if max(rewards) < min_reward:
        raise UserError(
            f"{path}: none of {len(rewards)} graded trajectories reaches --min_reward {min_reward} "
            f"(best: {max(rewards)})."
        )
    return [one for one in trajectories if one.is_graded and one.reward is not None and one.reward >= min_reward]
