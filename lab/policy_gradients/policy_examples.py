"""Graded dialogues -> examples of a policy gradient: the tokens that were sampled, their log-probs and advantages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lab.policy_gradients.group_advantages import group_advantages, turn_weights
from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.parts import TextMarkup, trajectory_parts
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory
from sweet_rl.training.examples import Encoder, Examples, Row
from sweet_rl.training.settings import DataSettings

NO_REWARD = "without a reward, left out"
ALONE = "the only ones of their task with a reward, left out"
SAME_REWARD = "of a task whose dialogues all have the same reward, left out"
RE_ENCODED = "without the sampled token ids, trained on the ids of their text"


@dataclass
class PolicyExamples(Examples):
    """Dialogues that are better or worse than their siblings.

    Attributes:
        advantages: float32 [n_i] for each dialogue: of each trained token, the weight of its turn included.
        sampled: float32 [n_i] for each dialogue: the log-probs of sampling; None if they are to be recomputed.
    """

    advantages: list[np.ndarray] = field(default_factory=list)
    sampled: list[np.ndarray] | None = None


def encode_policy_examples(
    trajectories: Sequence[Trajectory],
    chat: ChatFormat,
    data: DataSettings,
    how: PolicyGradientSettings,
    path: str = "the dataset",
) -> PolicyExamples:
    """Encode the dialogues that have an advantage, every turn of the agent trained.

    A dialogue's advantage is relative to all graded dialogues of its task, also those that are too long to be trained.

    Raises:
        UserError: naming the dialogue whose log-probs or credit are missing; or nothing is left to train on.
    """
    counts: Counter = Counter()
    graded = _graded(trajectories, path, counts)
    tasks = [trajectory.task.id for trajectory in graded]
    advantages = group_advantages([trajectory.reward for trajectory in graded], tasks, how.divide_by_std)
    siblings = Counter(tasks)
    if max(siblings.values()) == 1:
        raise UserError(
            f"{path}: every task has one graded dialogue, so none can be compared with its siblings. Collect several "
            "per task: simulate_interactions.py --best_of_n 4 or more."
        )
    rewards: dict[str, set[float]] = {}
    for trajectory in graded:
        rewards.setdefault(trajectory.task.id, set()).add(trajectory.reward)
    encoder, found = Encoder(chat, data), PolicyExamples([], np.zeros((0, 1), dtype=np.int64), [], counts)
    logps: list[np.ndarray] = []
    recompute = how.old_logprobs == "recomputed"
    credit, turns, outcomes = [], [], []
    for trajectory, advantage in zip(graded, advantages.tolist(), strict=True):
        if len(rewards[trajectory.task.id]) == 1:
            counts[ALONE if siblings[trajectory.task.id] == 1 else SAME_REWARD] += 1
            continue
        where = f"{path}, trajectory {trajectory.id!r}"
        parts = trajectory_parts(trajectory, TextMarkup(chat, data.response_template))
        fitting = encoder.fitting(Row([parts], [where], trajectory.tokenizer, trajectory.task.id), counts)
        if fitting is None:
            continue
        text = fitting[0]
        found.texts.append(text)
        found.labels.append(float(trajectory.reward == 1.0))
        found.tasks.append(trajectory.task.id)
        logps.append(_sampling_logps(trajectory, text, chat, recompute, where, counts))
        outcomes.append(advantage)
        turns.append(np.bincount(text.turns))
        if how.turn_weight:
            credit.append(_turn_credit(trajectory, len(turns[-1]), where))
    if not found.texts:
        reasons = "; ".join(f"{count} {why}" for why, count in counts.items())
        raise UserError(
            f"{path}: none of its {len(trajectories)} dialogues can be trained on ({reasons}). Only tasks on which "
            "some dialogues are better than others teach anything: collect more dialogues per task, or more tasks."
        )
    weights = turn_weights(credit, turns, found.tasks, outcomes, how.turn_weight) if how.turn_weight else None
    for i, (text, advantage) in enumerate(zip(found.texts, outcomes, strict=True)):
        by_turn = np.full(len(turns[i]), advantage) * (1.0 if weights is None else weights[i])
        found.advantages.append(by_turn[text.turns].astype(np.float32))
    return replace(found, rows=np.arange(len(found.texts))[:, None], sampled=None if recompute else logps)


def _graded(trajectories: Sequence[Trajectory], path: str, counts: Counter) -> list[Trajectory]:
    """The trajectories with a reward and a turn of the agent. Raises UserError if there is none."""
    graded = [t for t in trajectories if t.is_graded and t.turns]
    if not graded:
        raise UserError(f"{path}: no trajectory has a reward. Run evaluate_code.py on it first.")
    if len(graded) < len(trajectories):
        counts[NO_REWARD] = len(trajectories) - len(graded)
    return graded


def _sampling_logps(
    trajectory: Trajectory, text: EncodedText, chat: ChatFormat, recompute: bool, where: str, counts: Counter
) -> np.ndarray:
    """The log-probs of sampling of the trained tokens, float32 [n]; empty with `recompute`.

    Raises UserError if the file does not have them for the very tokens that are trained.
    """
    own = [message for message in trajectory.dialogue_history if message["role"] == "assistant"]
    ids = [token for message in own for token in message.get("token_ids") or []]
    exact = trajectory.tokenizer == chat.fingerprint and ids == text.ids[text.targets].tolist()
    if recompute:
        if not exact:
            counts[RE_ENCODED] += 1
        return np.empty(0, dtype=np.float32)
    logps = [value for message in own for value in message.get("logprobs") or []]
    if exact and len(logps) == len(ids):
        return np.asarray(logps, dtype=np.float32)
    missing = "log-probs of sampling" if exact else "token ids of this model's tokenizer"
    raise UserError(
        f"{where}: the agent's turns have no {missing}. Collect the dialogues with "
        "lab.policy_gradients.collect, the agent in this process or on vLLM. Or give --old_logprobs recomputed: the "
        "model that training starts from computes the log-probs, and a dialogue without token ids is trained on those "
        "of its text."
    )


def _turn_credit(trajectory: Trajectory, turns: int, where: str) -> list[float]:
    """The credit of each turn. Raises UserError if it is missing or of another number of turns."""
    if trajectory.turn_credit is None:
        raise UserError(
            f"{where}: no 'turn_credit', which --turn_weight needs. Run score_turns.py on the graded file, or leave "
            "--turn_weight out."
        )
    if len(trajectory.turn_credit) != turns:
        raise UserError(
            f"{where}: 'turn_credit' has {len(trajectory.turn_credit)} numbers for {turns} turns with tokens. Run "
            "score_turns.py on this file again."
        )
    return trajectory.turn_credit
