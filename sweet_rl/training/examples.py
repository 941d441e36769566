"""Records -> encoded texts: what is too long or says nothing is left out and counted, never cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sweet_rl.chat import ChatFormat, parts_from_text, with_hint
from sweet_rl.credit.trajectory_pairs import trajectory_parts
from sweet_rl.errors import UserError
from sweet_rl.records import Part, PreferencePair, Trajectory
from sweet_rl.training.rows import EncodedText


@dataclass
class PreferenceExamples:
    """texts: the distinct texts. pairs: int64 [P, 2], indices of (chosen, rejected). dropped: why -> how
    many.
    """

    texts: list[EncodedText]
    pairs: np.ndarray
    dropped: Counter

    def __len__(self) -> int:
        return len(self.pairs)


class Encoder:
    """Parts or released strings -> EncodedText, the same text only once.

    Strings need `response_template`, the markup that opens an agent's turn, e.g.
    "<|start_header_id|>assistant<|end_header_id|>\\n\\n".
    """

    def __init__(self, chat: ChatFormat, response_template: str | None = None):
        self.chat = chat
        self.response_template = response_template
        self.texts: list[EncodedText] = []
        self.index: dict[bytes, int] = {}

    def encode(self, text: str | list[Part], tokenizer: str | None, where: str) -> EncodedText:
        """Raises UserError naming `where`: a string without a response template, nothing to train on."""
        if isinstance(text, str):
            if not self.response_template:
                raise UserError(
                    f"{where}: a plain string, which does not say what the agent wrote. Give "
                    "--response_template, the markup that opens the agent's turns."
                )
            try:
                text = parts_from_text(text, self.response_template, self.chat.eos_text, self.chat.bos_text)
            except UserError as error:
                raise UserError(f"{where}: {error}") from error
        ids, train = self.chat.encode(text, tokenizer)
        return EncodedText.build(ids, train, where)

    def number(self, text: EncodedText) -> int:
        """The text's index in `texts`, where it is put if it is new."""
        if text.key not in self.index:
            self.index[text.key] = len(self.texts)
            self.texts.append(text)
        return self.index[text.key]


def encode_pairs(
    pairs: Sequence[PreferencePair],
    chat: ChatFormat,
    max_len: int | None = None,
    response_template: str | None = None,
    path: str = "the dataset",
) -> PreferenceExamples:
    """Pairs with a text of more than `max_len` tokens, and pairs of two equal texts, are dropped and counted.

    Raises UserError naming the pair that has nothing to train on, and if no pair is left.
    """
    encoder = Encoder(chat, response_template)
    kept, dropped = [], Counter()
    for pair in pairs:
        chosen = encoder.encode(pair.chosen, pair.tokenizer, f"{path}, pair {pair.id!r}, 'chosen'")
        rejected = encoder.encode(pair.rejected, pair.tokenizer, f"{path}, pair {pair.id!r}, 'rejected'")
        if max_len is not None and max(len(chosen), len(rejected)) > max_len:
            dropped["longer than max_len"] += 1
        elif chosen.key == rejected.key:
            dropped["chosen equals rejected"] += 1
        else:
            kept.append((encoder.number(chosen), encoder.number(rejected)))
    if not kept:
        raise UserError(_nothing_left(path, len(pairs), "pairs", dropped, max_len))
    return PreferenceExamples(encoder.texts, np.asarray(kept, dtype=np.int64), dropped)


def encode_trajectories(
    trajectories: Iterable[Trajectory],
    chat: ChatFormat,
    max_len: int | None = None,
    path: str = "the dataset",
    response_template: str | None = None,
) -> tuple[list[EncodedText], Counter]:
    """The texts of whole dialogues, every agent turn trained; too long ones are dropped and counted.

    response_template: for released files, whose rows carry their text; without it `chat` lays the messages out.
    Raises UserError naming the dialogue that has nothing to train on, and if none is left.
    """
    texts, _, dropped = encode_graded(trajectories, chat, max_len, path, response_template, hint=False)
    return texts, dropped


def encode_graded(
    trajectories: Iterable[Trajectory],
    chat: ChatFormat,
    max_len: int | None = None,
    path: str = "the dataset",
    response_template: str | None = None,
    hint: bool = True,
) -> tuple[list[EncodedText], list[float], Counter]:
    """As `encode_trajectories`, with each dialogue's label, 1.0 for a reward of 1 and else 0.0; with `hint` the
    reference solution stands before the dialogue."""
    texts, labels, dropped, seen = [], [], Counter(), 0
    for trajectory in trajectories:
        seen += 1
        if not any(message["role"] == "assistant" for message in trajectory.dialogue_history):
            raise UserError(f"{path}, trajectory {trajectory.id!r}: nothing to train on, the agent never speaks in it.")
        parts = trajectory_parts(trajectory, chat, response_template)
        if hint:
            parts = with_hint(parts, trajectory.task.ground_truth)
        ids, train = chat.encode(parts, trajectory.tokenizer)
        text = EncodedText.build(ids, train, f"{path}, trajectory {trajectory.id!r}")
        if max_len is not None and len(text) > max_len:
            dropped["longer than max_len"] += 1
        else:
            texts.append(text)
            labels.append(float(trajectory.reward == 1.0))
    if not texts:
        raise UserError(_nothing_left(path, seen, "trajectories", dropped, max_len))
    return texts, labels, dropped


def _nothing_left(path: str, count: int, what: str, dropped: Counter, max_len: int | None) -> str:
    reasons = ", ".join(f"{n} {why}" for why, n in dropped.items()) or "the file is empty"
    return f"{path}: none of its {count} {what} can be trained on ({reasons}; --max_len is {max_len})."
