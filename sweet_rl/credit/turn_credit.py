"""Credit for the viewer: the advantage of every turn, and the log-probs of its tokens from which it is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.advantage import advantage
from sweet_rl.credit.candidate_texts import encoded_candidates, sampling_logprobs
from sweet_rl.credit.log_ratio import Score
from sweet_rl.errors import UserError
from sweet_rl.records import Trajectory, TurnCandidates
from sweet_rl.scoring.privileged_information import with_hint
from sweet_rl.scoring.rows import EncodedText
from sweet_rl.scoring.trajectory_parts import trajectory_parts


class TurnCredit:
    """The credit of turns and tokens under a critic and its reference (equation 2 of the paper).

    Args:
        chat: of the critic's tokenizer.
        critic: log-probs of texts under the critic.
        reference: log-probs of texts under the reference model. None, for candidates only, takes the log-probs with
            which they were sampled.
        hint: whether the critic sees the reference solution.
        reference_hint: whether the reference model sees it.
        normalize: as in `advantage`.
        response_template: for trajectories of released files, as in `trajectory_parts`.
    """

    def __init__(
        self,
        chat: ChatFormat,
        critic: Score,
        reference: Score | None,
        hint: bool = True,
        reference_hint: bool = True,
        normalize: str = "turn",
        response_template: str | None = None,
    ) -> None:
        self.chat, self.normalize, self.response_template = chat, normalize, response_template
        self._critic, self._reference = critic, reference
        self._hint, self._reference_hint = hint, reference_hint

    def of_trajectories(self, trajectories: Sequence[Trajectory]) -> list[list[dict]]:
        """The credit of each turn of each trajectory, from one forward pass per trajectory.

        Returns:
            For each trajectory a row per turn of the agent: {turn, advantage, tokens, critic, reference}; `tokens` are
            texts, `critic` and `reference` log-probs: lists of [L].

        Raises:
            UserError: the text of a dialogue is not known, or there is no reference model.
        """
        spoken = [t for t in trajectories if any(m["role"] == "assistant" for m in t.dialogue_history)]
        shown = [self._text(trajectory, self._hint) for trajectory in spoken]
        other = shown if self._hint == self._reference_hint else [self._text(t, self._reference_hint) for t in spoken]
        if self._reference is None:
            raise UserError("trajectories have no log-probs of sampling: a reference model is needed.")
        theta, reference = self._critic(shown), self._reference(other)
        turns = {}
        for trajectory, text, own, ref in zip(spoken, shown, theta, reference, strict=True):
            found = []
            for turn in range(int(text.turns[-1]) + 1):
                of_turn = text.turns == turn
                ids = text.ids[text.targets[of_turn]].tolist()
                found.append({"turn": turn} | self._row(ids, own[of_turn], ref[of_turn]))
            turns[trajectory.id] = found
        return [turns.get(trajectory.id, []) for trajectory in trajectories]

    def of_candidates(self, records: Sequence[TurnCandidates]) -> list[list[dict]]:
        """The credit of each candidate of each record.

        Returns:
            For each record a row per candidate, as for a turn; `turn` is the number of the candidate. `reference` is
            missing if the stored log-probs are of other tokens or only their mean.
        """
        shown = [encoded_candidates(record, self.chat, self._hint) for record in records]
        other = shown if self._hint == self._reference_hint else [
            encoded_candidates(record, self.chat, self._reference_hint) for record in records
        ]  # fmt: skip
        theta = iter(self._critic([text for group in shown for text in group]))
        given = iter(self._reference([text for group in other for text in group])) if self._reference else None
        found = []
        for record, group in zip(records, shown, strict=True):
            rows = []
            for number, text in enumerate(group):
                reference = next(given) if given else sampling_logprobs(record, self.normalize)[number]
                ids = text.ids[text.targets].tolist()
                rows.append({"turn": number} | self._row(ids, next(theta), reference))
            found.append(rows)
        return found

    def _row(self, ids: list[int], critic: np.ndarray, reference: np.ndarray | list[float] | float) -> dict:
        row = {
            "advantage": round(advantage(critic, reference, self.normalize), 4),
            "tokens": token_texts(self.chat.tokenizer, ids),
            "critic": [round(float(value), 3) for value in critic],
        }
        if np.ndim(reference) and len(reference) == len(ids):
            row["reference"] = [round(float(value), 3) for value in reference]
        return row

    def _text(self, trajectory: Trajectory, hint: bool) -> EncodedText:
        parts = trajectory_parts(trajectory, self.chat, self.response_template)
        if hint:
            parts = with_hint(parts, trajectory.task.ground_truth)
        ids, train = self.chat.encode(parts, trajectory.tokenizer)
        return EncodedText.build(ids, train, f"trajectory {trajectory.id!r}")


def token_texts(tokenizer, ids: Sequence[int]) -> list[str]:
    """The text that each token adds; joined, they are the text of all `ids`.

    A character that consists of several tokens is the text of the last of them; the others have "".
    """
    texts: list[str] = []
    start, done = 0, 0  # decoded from `start` on, because tokenizers treat the first token of a text differently
    for end in range(1, len(ids) + 1):
        before = _decoded(tokenizer, ids[start:done])
        now = _decoded(tokenizer, ids[start:end])
        if now.endswith("\ufffd") and end < len(ids) and end - done < 8:
            texts.append("")
            continue
        texts.append(now[len(before) :])
        start, done = max(0, done - 4), end
    return texts


def _decoded(tokenizer, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
