"""Records -> encoded examples: what to do with texts that are too long, and which tasks are held out."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import numpy as np

from sweet_rl.models.context import check_length
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.text_store import TextStore
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.texts.parts import TextMarkup, foreign_end, given_markup, trajectory_parts
from sweet_rl.models.texts.released_texts import Markup, last_reply_parts, parts_from_text
from sweet_rl.models.thinking import CLOSE
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part, PreferencePair, Trajectory, seed_for
from sweet_rl.training.settings import DataSettings

log = logging.getLogger(__name__)
DROPPED, SHORTENED = "longer than max_len, left out", "longer than max_len, oldest turns left out"
EQUAL = "chosen equals rejected, left out (train_sft.py imitates such rows)"
NO_REASONING = "whose earlier reasoning is left out, as the chat template does without token ids"
REASONING = "whose earlier reasoning is trained, as the chat template keeps it"
EMPTY = "with a text in which the agent says nothing (cut before its first token), left out"
NO_EOS = "whose last turn has no end-of-turn token, trained without one (it was cut, or the file has none; the release "
NO_EOS += "appends one)"
Hint = Callable[[Sequence[Part], str], list[Part]]
"""Function of the parts of a dialogue and of its reference solution: the parts that show it."""


@dataclass
class PreferenceExamples:
    """Pairs of texts.

    Attributes:
        texts: the distinct texts; a TextStore, or a list.
        pairs: int64 [P, 2], indices of (chosen, rejected).
        tasks: each pair's task; None if its row does not name one.
        counts: number of pairs by what happened to them.
    """

    texts: Sequence[EncodedText]
    pairs: np.ndarray
    tasks: list[str | None]
    counts: Counter

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def prompts(self) -> list[bytes]:
        """A digest of the prompt of each pair's chosen text."""
        return [self.texts[chosen].prompt for chosen in self.pairs[:, 0]]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each pair's longer text."""
        return [max(len(self.texts[i]) for i in pair) for pair in self.pairs]


@dataclass
class DialogueExamples:
    """Whole dialogues.

    Attributes:
        texts: Encoded texts of the dialogues.
        labels: 1.0 for each dialogue that succeeded (reward 1), else 0.0.
        tasks: each dialogue's task.
        counts: number of dialogues by what happened to them.
    """

    texts: Sequence[EncodedText]
    labels: list[float]
    tasks: list[str | None]
    counts: Counter

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def prompts(self) -> list[bytes]:
        """A digest of each dialogue up to the agent's first turn."""
        return [text.prompt for text in self.texts]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each dialogue."""
        return [len(text) for text in self.texts]


def turn_starts(parts: Sequence[Part]) -> list[int]:
    """Index of the first part of each turn of the agent. Turns are trained parts and those marked `turn`."""
    own = [part["train"] or part.get("turn", False) for part in parts]
    return [i for i, mine in enumerate(own) if mine and (i == 0 or not own[i - 1])]


def without_oldest_turns(parts: Sequence[Part], count: int) -> list[Part]:
    """The dialogue without the agent's `count` oldest turns and the human's reply to each.

    What stands before the first turn (BOS, reference solution, task, the turn's header) stays, and so does the last
    turn. The markup stays well formed, because a turn is removed together with the text up to the next one. Raises
    ValueError if the dialogue has too few turns.
    """
    starts = turn_starts(parts)
    if not 0 <= count < max(1, len(starts)):
        raise ValueError(f"{count} turns cannot be left out of {len(starts)}: the last one stays")
    return list(parts) if count == 0 else [*parts[: starts[0]], *parts[starts[count] :]]


def turns_to_leave_out(parts: Sequence[Part], length: Callable[[list[Part]], int], max_len: int) -> int | None:
    """The fewest oldest turns to leave out so that `length(parts)`, in tokens, is at most max_len; None if the
    last turn alone is too long."""
    for count in range(max(1, len(turn_starts(parts)))):
        if length(without_oldest_turns(parts, count)) <= max_len:
            return count
    return None


class Encoder:
    """Encodes the texts of records, by one chat format and the settings of the data."""

    def __init__(self, chat: ChatFormat, data: DataSettings | None = None):
        self.chat, self.data = chat, data or DataSettings()
        self._announced = self._warned = False

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
        own = Markup(self.chat.reply_header, self.chat.eos_text, self.chat.bos_text)
        return [_with_reply(parts) for parts in last_reply_parts(strings, own, places[0])]

    def _warn_of_markup(self, parts: list[Part], where: str) -> None:
        """Warn once of a text in which nothing before the first trained part opens a reply."""
        prompt = parts_text([*takewhile(lambda part: not part["train"], parts)])
        if self._warned or self.chat.reply_header in prompt:
            return
        self._warned = True
        log.warning(
            "%s: the prompt has no %r, which opens a reply in the chat template of %s: its text is trained as it is "
            "(a marker by which another family ends a turn as %r). Dialogues as messages are "
            "laid out by the template (docs/files.md).",
            where,
            self.chat.reply_header,
            self.chat.name,
            self.chat.eos_text,
        )

    def _own_end(self, part: Part) -> Part:
        """A turn of the agent that ends with the marker of another family, with the model's EOS in its place."""
        own = (part["train"] or part.get("turn")) and not part.get("plain")
        end = foreign_end(part["text"], self.chat) if own else ""
        return {**part, "text": part["text"].removesuffix(end) + self.chat.eos_text} if end else part

    def encode(self, parts: list[Part], tokenizer: str | None, where: str) -> EncodedText | None:
        """The ids and the mask of trained tokens; None if the agent's turns have no token.

        An end-of-turn marker of another family becomes the EOS of the model.

        Raises:
            UserError: No part is trained. It names `where`.
        """
        ids, train = self.chat.encode([*map(self._own_end, parts)], tokenizer, where)
        if not any(train) and any(part["train"] for part in parts):
            return None
        return EncodedText.build(ids, train, where)

    def _length(self, tokenizer: str | None, where: str, parts: list[Part]) -> int:
        text = self.encode(parts, tokenizer, where)
        return 0 if text is None else len(text)

    def fitting(
        self, texts: list[list[Part]], tokenizer: str | None, places: list[str], counts: Counter
    ) -> list[EncodedText] | None:
        """The texts of one example, encoded and none longer than max_len; None if the example must be left out.

        Texts that differ in their last turn only (turn pairs) lose the same turns. Warns once of prompts without the
        model's chat markup.

        Args:
            texts: parts of each text.
            tokenizer: fingerprint of the tokenizer of their token ids.
            places: name of each text for errors.
            counts: is updated with what happened.

        Raises:
            UserError: There is nothing to train on, or a text that max_len allows is longer than the model's context.
        """
        self._warn_of_markup(texts[0], places[0])
        encoded = [self.encode(parts, tokenizer, place) for parts, place in zip(texts, places, strict=True)]
        most = self.data.max_len
        if most is not None and None not in encoded and max(map(len, filter(None, encoded))) > most:
            shorter = None if self.data.too_long == "drop" else self._shortened(texts, tokenizer, places, most)
            counts[DROPPED if shorter is None else SHORTENED] += 1
            if shorter is None:
                return None
            encoded = [self.encode(parts, tokenizer, place) for parts, place in zip(shorter, places, strict=True)]
        found = [text for text in encoded if text is not None]
        if len(found) < len(encoded):
            counts[EMPTY] += 1
            return None
        context = self.chat.context
        remedy = f"Give --max_len {context}: such examples are left out, or shortened by --too_long oldest_turns."
        for text, place in zip(found, places, strict=True):
            check_length(len(text), context, place, remedy)
        return found

    def _shortened(
        self, texts: list[list[Part]], tokenizer: str | None, places: list[str], most: int
    ) -> list[list[Part]] | None:
        """The texts without their oldest turns; None if that is not enough. Arguments as in `fitting`."""
        out = []
        for parts, place in zip(texts, places, strict=True):
            left_out = turns_to_leave_out(parts, partial(self._length, tokenizer, place), most)
            if left_out is None:
                return None
            out.append(left_out)
        if all(sum(part["train"] for part in parts) == 1 for parts in texts):
            out = [min(max(out), len(turn_starts(parts)) - 1) for parts in texts]
        return [without_oldest_turns(parts, count) for parts, count in zip(texts, out, strict=True)]


def ends_open(texts: Iterable[EncodedText], chat: ChatFormat) -> bool:
    """Whether one of the texts does not end with an end-of-turn token."""
    return any(text.ids[-1] not in chat.eos_ids for text in texts)


def encode_pairs(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> PreferenceExamples:
    """Encode pairs. Pairs of two equal texts are left out and counted; equal texts of different pairs are one text.

    Raises UserError naming the pair that has nothing to train on, and if no pair is left.
    """
    encoder = Encoder(chat, data)
    counts: Counter[str] = Counter()
    texts: dict[bytes, tuple[int, EncodedText]] = {}
    kept, tasks = [], []
    for pair in pairs:
        places = [f"{pair.place('pair', path)}, {name!r}" for name in ("chosen", "rejected")]
        parts = encoder.pair_parts(pair, places)
        both = encoder.fitting(parts, pair.tokenizer, places, counts)
        if both is None:
            continue
        if both[0].key == both[1].key:
            counts[EQUAL] += 1
            continue
        if ends_open(both, chat):
            counts[NO_EOS] += 1
        kept.append([texts.setdefault(text.key, (len(texts), text))[0] for text in both])
        tasks.append(pair.task_id)
    if not kept:
        raise UserError(_nothing_left(path, len(pairs), "pairs", counts, data))
    store = TextStore.pack([text for _, text in texts.values()])
    return PreferenceExamples(store, np.asarray(kept, dtype=np.int64), tasks, counts)


def encode_trajectories(
    trajectories: Iterable[Trajectory],
    chat: ChatFormat,
    data: DataSettings,
    path: str = "the dataset",
    hint: Hint | None = None,
) -> DialogueExamples:
    """Encode whole dialogues, every turn of the agent trained.

    `hint` puts the reference solution in front of each dialogue; None leaves it out.

    Raises UserError naming the dialogue that has nothing to train on, and if none is left.
    """
    encoder, found, seen = Encoder(chat, data), DialogueExamples([], [], [], Counter()), 0
    texts: list[EncodedText] = []
    markup = TextMarkup(chat, data.response_template)
    for trajectory in trajectories:
        seen += 1
        where = trajectory.place("trajectory", path)
        if not any(message["role"] == "assistant" for message in trajectory.dialogue_history):
            raise UserError(f"{where}: nothing to train on, the agent never speaks in it.")
        parts = trajectory_parts(trajectory, markup)
        if hint is not None:
            parts = hint(parts, trajectory.task.ground_truth)
        fitting = encoder.fitting([parts], trajectory.tokenizer, [where], found.counts)
        if fitting is not None:
            if ends_open(fitting, chat):
                found.counts[NO_EOS] += 1
            if what := _earlier_reasoning(trajectory, parts):
                found.counts[what] += 1
            texts += fitting
            found.labels.append(float(trajectory.reward == 1.0))
            found.tasks.append(trajectory.task.id)
    if not texts:
        raise UserError(_nothing_left(path, seen, "trajectories", found.counts, data))
    return replace(found, texts=TextStore.pack(texts))


def encode_replies(
    pairs: Sequence[PreferencePair], chat: ChatFormat, data: DataSettings, path: str = "the dataset"
) -> DialogueExamples:
    """Encode the chosen texts of pairs, each once, to imitate them. Raises UserError if none is left."""
    encoder, found = Encoder(chat, data), DialogueExamples([], [], [], Counter())
    texts: list[EncodedText] = []
    seen: set[bytes] = set()
    for pair in pairs:
        places = [f"{pair.place('pair', path)}, {name!r}" for name in ("chosen", "rejected")]
        fitting = encoder.fitting(encoder.pair_parts(pair, places)[:1], pair.tokenizer, places[:1], found.counts)
        if fitting is not None and fitting[0].key not in seen:
            seen.add(fitting[0].key)
            if ends_open(fitting, chat):
                found.counts[NO_EOS] += 1
            texts += fitting
            found.labels.append(1.0)
            found.tasks.append(pair.task_id)
    if not texts:
        raise UserError(_nothing_left(path, len(pairs), "texts", found.counts, data))
    return replace(found, texts=TextStore.pack(texts))


def _earlier_reasoning(trajectory: Trajectory, parts: list[Part]) -> str | None:
    """What training sees of the reasoning before the agent's last turn; None if there is none."""
    own = [message for message in trajectory.dialogue_history if message["role"] == "assistant"]
    thought = [CLOSE in (message.get("output") or message["content"]) for message in own]
    if not any(thought[:-1]):
        return None
    return REASONING if sum(CLOSE in part["text"] for part in parts if part["train"]) >= sum(thought) else NO_REASONING


def _with_reply(parts: list[Part]) -> list[Part]:
    """The parts of a plain text; one that ends with the header of a reply has an empty reply."""
    return parts if any(part["train"] for part in parts) else [*parts, {"text": "", "train": True}]


def _nothing_left(path: str, count: int, what: str, counts: Counter, data: DataSettings) -> str:
    reasons = "; ".join(f"{n} {why}" for why, n in counts.items()) or "the file is empty"
    return f"{path}: none of its {count} {what} can be trained on ({reasons}; --max_len is {data.max_len})."


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
