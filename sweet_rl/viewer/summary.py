"""The figures at the top of the page: success with its interval, and advantages by turn and by oracle word."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from sweet_rl.evaluation.statistics import bootstrap_interval, paired_difference
from sweet_rl.runs.records import Trajectory

RESAMPLES = 2000


class Tally:
    """Counts entries as they are scanned. Rewards are kept per task, so that intervals can resample tasks."""

    def __init__(self) -> None:
        self.rewards: dict[str, list[float]] = defaultdict(list)
        self.entries = 0
        self.tasks: set[str] = set()
        self._advantages: dict[int, list[float]] = defaultdict(list)
        self._by_word: dict[str, list[float]] = defaultdict(list)

    def add(self, trajectory: Trajectory, row: dict) -> None:
        """Count a dialogue. One that failed or has no grade does not enter success."""
        self.add_row(row)
        if trajectory.is_graded and trajectory.reward is not None:
            self.rewards[trajectory.task.id].append(trajectory.reward)
        for turn, value in enumerate(row.get("advantages", ())):
            if value is not None:
                self._advantages[turn].append(value)
                word = row["oracle"][turn] if turn < len(row.get("oracle", ())) else None
                if word:
                    self._by_word[word].append(value)

    def add_row(self, row: dict) -> None:
        """Count an entry without a reward."""
        self.entries += 1
        self.tasks.add(row["task"])

    def add_candidates(self, row: dict, candidates: Mapping[int, list[dict]]) -> None:
        """Count a dialogue's candidates (`candidates_view`) by turn."""
        self.add_row(row)
        for turn, group in candidates.items():
            self._advantages[turn] += [candidate["score"] for candidate in group if "score" in candidate]

    def summary(self) -> dict:
        """{entries, tasks, graded?, success?, reward?, advantage_by_turn?, advantage_by_word?}.

        success and reward have 95 % intervals, bootstrap over tasks. The rows of advantage_by_turn and
        advantage_by_word are {turn or word, n, mean, low, high}, low and high being the quartiles.
        """
        found: dict = {"entries": self.entries, "tasks": len(self.tasks)}
        if self.rewards:
            successes = {task: [float(reward == 1) for reward in values] for task, values in self.rewards.items()}
            found["graded"] = sum(map(len, self.rewards.values()))
            found["success"] = bootstrap_interval(successes, resamples=RESAMPLES).to_dict()
            found["reward"] = bootstrap_interval(dict(self.rewards), resamples=RESAMPLES).to_dict()
        if self._advantages:
            found["advantage_by_turn"] = _spreads("turn", self._advantages)
        if self._by_word:
            found["advantage_by_word"] = _spreads("word", self._by_word)
        return found

    def compared(self, other: Tally, names: tuple[str, str], left_out: int) -> dict:
        """The figures of both runs, and the paired difference in success over the tasks graded in both."""
        found = {"names": list(names), "runs": [self.summary(), other.summary()], "left_out": left_out}
        both = self.rewards.keys() & other.rewards.keys()
        if both:
            a, b = ({task: [float(r == 1) for r in run.rewards[task]] for task in both} for run in (self, other))
            found["difference"] = paired_difference(b, a, resamples=RESAMPLES).to_dict()
        return found


def _spreads(name: str, values_by_key: Mapping) -> list[dict]:
    rows = []
    for key, values in sorted(values_by_key.items()):
        if values:
            wide = np.asarray(values, dtype=np.longdouble)  # because the sum of large numbers may be none
            mean, (low, high) = float(wide.mean()), np.percentile(wide, [25, 75])
            rows.append({name: key, "n": len(values), "mean": mean, "low": float(low), "high": float(high)})
    return rows
