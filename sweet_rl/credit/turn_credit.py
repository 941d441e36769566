"""Credit for the viewer: the advantage of every turn, and the log-probs of its tokens from which it is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweet_rl.credit.advantage import advantage
from sweet_rl.credit.candidate_texts import encoded_candidates
from sweet_rl.credit.sweet_critic import LogRatioCritic
from sweet_rl.errors import UserError
from sweet_rl.log_probs.privileged_information import with_hint
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.log_probs.trajectory_parts import TextMarkup, trajectory_parts
from sweet_rl.records import Trajectory, TurnCandidates


class TurnCredit:
    """The credit of turns and tokens under a critic and its reference (equation 3 of the paper).

    Args:
        critic: gives the log-probs, and says how they are added up.
        response_template: Markup that opens the agent's turns in released files, see `TextMarkup`.
    """

    def __init__(self, critic: LogRatioCritic, response_template: str | None = None) -> None:
        self.critic, self._texts = critic, TextMarkup(critic.chat, response_template)

    def of_trajectories(self, trajectories: Sequence[Trajectory]) -> list[list[dict]]:
        """The credit of each turn of each trajectory, from one forward pass per trajectory.

        Returns:
            For each trajectory a row per turn of the agent: {turn, advantage, tokens, critic, reference}; `tokens` are
            texts, `critic` and `reference` log-probs: lists of [L].

        Raises:
            UserError: the text of a dialogue is not known, or there is no reference model.
        """
        hint, reference_hint = self.critic.hint, self.critic.reference_hint
        critic, reference_model = self.critic.scorers
        if reference_model is None:
            raise UserError("trajectories have no log-probs of sampling: a reference model is needed.")
        spoken = [t for t in trajectories if any(m["role"] == "assistant" for m in t.dialogue_history)]
        shown = [self._text(trajectory, hint) for trajectory in spoken]
        other = shown if hint == reference_hint else [self._text(t, reference_hint) for t in spoken]
        theta, reference = critic(shown), reference_model(other)
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
        found = []
        for record, logps in zip(records, self.critic.logps(records), strict=True):
            texts = encoded_candidates(record, self.critic.chat, self.critic.hint)
            ids = [text.ids[text.targets].tolist() for text in texts]
            rows = zip(ids, logps, strict=True)
            found.append([{"turn": number} | self._row(own, *pair) for number, (own, pair) in enumerate(rows)])
        return found

    def _row(self, ids: list[int], critic: np.ndarray, reference: np.ndarray | list[float] | float) -> dict:
        row = {
            "advantage": round(advantage(critic, reference, **self.critic.aggregation), 4),
            "tokens": token_texts(self.critic.chat.tokenizer, ids),
            "critic": [round(float(value), 3) for value in critic],
        }
        if np.ndim(reference) and len(reference) == len(ids):
            row["reference"] = [round(float(value), 3) for value in reference]
        return row

    def _text(self, trajectory: Trajectory, hint: bool) -> EncodedText:
        parts = trajectory_parts(trajectory, self._texts)
        if hint:
            parts = with_hint(parts, trajectory.task.ground_truth)
        ids, train = self.critic.chat.encode(parts, trajectory.tokenizer)
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
