"""The figures at the top of the page: the main measure with its interval, and advantages by turn and by oracle word."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from sweet_rl.evaluation.graded_file import MEASURES, kind_of
from sweet_rl.evaluation.statistics import bootstrap_interval, paired_difference
from sweet_rl.runs.records import Trajectory


class Tally:
    """Counts entries as they are scanned. Rewards are kept per task, so that intervals can resample tasks."""

    def __init__(self) -> None:
        self.rewards: dict[str, list[float]] = defaultdict(list)
        self.entries = 0
        self.tasks: set[str] = set()
        self.measures: set[str] = set()
        self._advantages: dict[int, list[float]] = defaultdict(list)
        self._by_word: dict[str, list[float]] = defaultdict(list)

    def add(self, trajectory: Trajectory, row: dict) -> None:
        """Count a dialogue. One that failed or has no grade does not enter the measures."""
        self.add_row(row)
        if trajectory.is_graded and trajectory.reward is not None:
            self.rewards[trajectory.task.id].append(trajectory.reward)
            self.measures.add(MEASURES.get(kind_of(trajectory) or "", "success"))
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
        """{entries, tasks, graded?, measure?, score?, reward?, advantage_by_turn?, advantage_by_word?}.

        `score` is the mean of the `measure`, which is that of compare_runs.py; score and reward have 95 % intervals,
        bootstrap over tasks. The rows of advantage_by_turn and advantage_by_word are {turn or word, n, mean, low,
        high}, low and high being the quartiles.
        """
        found: dict = {"entries": self.entries, "tasks": len(self.tasks)}
        if self.rewards:
            found["graded"] = sum(map(len, self.rewards.values()))
            found["measure"] = self.measure
            found["score"] = bootstrap_interval(self.scores(self.measure)).to_dict()
            found["reward"] = bootstrap_interval(self.rewards).to_dict()
        if self._advantages:
            found["advantage_by_turn"] = _spreads("turn", self._advantages)
        if self._by_word:
            found["advantage_by_word"] = _spreads("word", self._by_word)
        return found

    @property
    def measure(self) -> str:
        """The main measure of all dialogues; of a file of several kinds it is the reward, which all have."""
        return next(iter(self.measures)) if len(self.measures) == 1 else "reward"

    def scores(self, measure: str) -> dict[str, list[float]]:
        """The values of a measure by task."""
        if measure != "success":
            return self.rewards
        return {task: [float(reward == 1) for reward in values] for task, values in self.rewards.items()}

    def compared(self, other: Tally, names: tuple[str, str], left_out: int) -> dict:
        """The figures of both runs, and the paired difference in their measure over the tasks graded in both."""
        found = {"names": list(names), "runs": [self.summary(), other.summary()], "left_out": left_out}
        both = self.rewards.keys() & other.rewards.keys()
        if both:
            measure = self.measure if self.measure == other.measure else "reward"
            a, b = ({task: scores[task] for task in both} for scores in (self.scores(measure), other.scores(measure)))
            found["difference"] = paired_difference(b, a).to_dict()
        return found


def _spreads(name: str, values_by_key: Mapping) -> list[dict]:
    rows = []
    for key, values in sorted(values_by_key.items()):
        if values:
            wide = np.asarray(values, dtype=np.longdouble)  # because the sum of large numbers may be none
            mean, (low, high) = float(wide.mean()), np.percentile(wide, [25, 75])
            rows.append({name: key, "n": len(values), "mean": mean, "low": float(low), "high": float(high)})
    return rows
