"""The figures on top of the page: success with its interval, and what the list's charts are drawn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from sweet_rl.analysis.statistics import bootstrap_interval, paired_difference
from sweet_rl.mini.credit_accuracy import pair_outcomes
from sweet_rl.records import Trajectory

RESAMPLES = 2000


class Tally:
    """Counts entries as they are scanned; a task's values are its dialogues'."""

    def __init__(self) -> None:
        self.rewards: dict[str, list[float]] = defaultdict(list)
        self.entries = 0
        self.tasks: set[str] = set()
        self._advantages: dict[int, list[float]] = defaultdict(list)
        self._by_word: dict[str, list[float]] = defaultdict(list)
        self._agreement: list[float] = []
        self._agreement_kinds: dict[str, list[float]] = defaultdict(list)

    def add(self, trajectory: Trajectory, row: dict) -> None:
        """Counts a dialogue; one that failed or cannot be graded has no part in success."""
        self.add_row(row)
        if trajectory.is_graded:
            self.rewards[trajectory.task.id].append(trajectory.reward)
        for turn, value in enumerate(row.get("advantages", ())):
            if value is not None:
                self._advantages[turn].append(value)
                word = row["oracle"][turn] if turn < len(row.get("oracle", ())) else None
                if word:
                    self._by_word[word].append(value)

    def add_row(self, row: dict) -> None:
        """Counts an entry that has no reward of its own."""
        self.entries += 1
        self.tasks.add(row["task"])

    def add_candidates(self, row: dict, candidates: Sequence[list[dict]], turns: Sequence[int]) -> None:
        """Counts the ranked candidates of a dialogue's turns."""
        self.add_row(row)
        for turn, group in zip(turns, candidates, strict=True):
            scored = [candidate for candidate in group if "score" in candidate]
            self._advantages[turn] += [candidate["score"] for candidate in scored]
            judged = {c["text"]: (c["text"], c["oracle"], c["score"]) for c in scored if "oracle" in c}
            for _, word, score in judged.values():
                self._by_word[word].append(score)
            for kind, right in pair_outcomes(list(judged.values())):
                self._agreement.append(right)
                self._agreement_kinds[kind].append(right)

    def summary(self) -> dict:
        """{entries, tasks, success?, reward?, advantage_by_turn?, advantage_by_word?, agreement?}.

        Intervals: 95 %, bootstrap over tasks. advantage_by_turn: [{turn, n, mean, low, high}], low and high being the
        quartiles. agreement: how often the critic orders two candidates of a turn as a mini task's oracle does.
        """
        found: dict = {"entries": self.entries, "tasks": len(self.tasks)}
        if self.rewards:
            successes = {task: [float(reward == 1) for reward in values] for task, values in self.rewards.items()}
            found["graded"] = sum(map(len, self.rewards.values()))
            found["success"] = bootstrap_interval(successes, resamples=RESAMPLES).to_dict()
            found["reward"] = bootstrap_interval(dict(self.rewards), resamples=RESAMPLES).to_dict()
        if self._advantages:
            found["advantage_by_turn"] = [_spread("turn", t, self._advantages[t]) for t in sorted(self._advantages)]
            found["advantage_by_turn"] = [row for row in found["advantage_by_turn"] if row]
        if self._by_word:
            found["advantage_by_word"] = [
                _spread("word", word, values) for word, values in sorted(self._by_word.items())
            ]
        if self._agreement:
            kinds = {k: {"share": float(np.mean(v)), "pairs": len(v)} for k, v in sorted(self._agreement_kinds.items())}
            share = float(np.mean(self._agreement))
            found["agreement"] = {"share": share, "pairs": len(self._agreement), "kinds": kinds}
        return found

    def compared(self, other: Tally, names: tuple[str, str], left_out: int) -> dict:
        """Both runs' figures, and the paired difference of success over the tasks that both have graded."""
        found = {"names": list(names), "runs": [self.summary(), other.summary()], "left_out": left_out}
        both = self.rewards.keys() & other.rewards.keys()
        if both:
            a, b = ({task: [float(r == 1) for r in run.rewards[task]] for task in both} for run in (self, other))
            found["difference"] = paired_difference(b, a, resamples=RESAMPLES).to_dict()
        return found


def _spread(name: str, key: object, values: Sequence[float]) -> dict:
    if not values:
        return {}
    low, high = np.percentile(values, [25, 75])
    return {name: key, "n": len(values), "mean": float(np.mean(values)), "low": float(low), "high": float(high)}
