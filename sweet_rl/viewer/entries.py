"""Collections of entries to look at: dialogues, preference pairs, two runs side by side (candidates: candidates.py).

A collection is scanned once, in order. Each entry gives a row for the list and its texts for the search. After that,
any entry can be had again by its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, Trajectory, TurnCandidates, content_id, read_records
from sweet_rl.viewer.candidates import Ranked, in_order, scores_of_own_turns
from sweet_rl.viewer.summary import Tally
from sweet_rl.viewer.views import opening, oracle_word, pair_view, shared_messages, title_of, trajectory_view

Entry = tuple[dict, list[str]]  # a row of the list, and the texts that the search looks through


class Collection(Protocol):
    """The content of a page, in a file or served."""

    kind: str
    title: str

    def scan(self) -> Iterator[Entry]:
        """Every entry, once, in order. Raises UserError at the first bad line."""

    def view(self, number: int) -> dict:
        """Everything about one entry that was scanned, as JSON."""

    def summary(self) -> dict:
        """The figures at the top of the page, once the scan is over."""


class Dialogues:
    """A file of trajectories, with the credit and the candidates of their turns if these are given."""

    kind = "trajectories"

    def __init__(self, path: str, limit: int | None = None, credit: Any = None, ranked: Ranked | None = None) -> None:
        self.path, self.title = path, Path(path).name
        self.credit, self.ranked = credit, ranked
        self._trajectories = read_records(path, Trajectory, limit)
        self._tally = Tally()

    def scan(self) -> Iterator[Entry]:
        for trajectory in self._trajectories:
            scores = {turn: row["advantage"] for turn, row in self.turn_credit(trajectory).items()}
            row = trajectory_row(trajectory, scores)
            if self.ranked and trajectory.id in self.ranked.turns:
                row["candidates"] = len(self.ranked.turns[trajectory.id])
            self._tally.add(trajectory, row)
            yield row, trajectory_texts(trajectory)
        if self.ranked and not self.ranked.turns.keys() & {trajectory.id for trajectory in self._trajectories}:
            raise UserError(
                f"{self.ranked.path}: none of its candidates is of a dialogue in {self.path}. Give the "
                "trajectories that sample_best_of_n.py read, or look at the candidates by themselves."
            )

    def turn_credit(self, trajectory: Trajectory) -> dict[int, dict]:
        """The credit of each turn: the critic's, else the ranked score of the candidate with the turn's text."""
        if self.credit is not None:
            return self.credit.turns(trajectory.id)
        return scores_of_own_turns(self.candidates(trajectory))

    def candidates(self, trajectory: Trajectory) -> dict[int, TurnCandidates]:
        """The candidates of a dialogue by turn. Raises UserError if they are of another dialogue with the same id."""
        if self.ranked is None:
            return {}
        records = self.ranked.records(trajectory.id)
        said = [m for m in trajectory.dialogue_history if m["role"] == "assistant"]
        for turn, record in records.items():
            texts = (said[turn]["content"], said[turn].get("output")) if turn < len(said) else ()
            if record.older_output not in texts:
                raise UserError(
                    f"{self.ranked.path}: what the agent says at turn {turn} of {trajectory.id} is not what it "
                    f"says in {self.path}. Give the trajectories that sample_best_of_n.py read."
                )
        return records

    def trajectory(self, number: int) -> Trajectory:
        """The trajectory of that number."""
        return self._trajectories[number]

    def view(self, number: int) -> dict:
        trajectory = self.trajectory(number)
        ranked = self.ranked
        shown = {turn: ranked.view(record) for turn, record in self.candidates(trajectory).items()} if ranked else {}
        return {"kind": "dialogue"} | trajectory_view(trajectory, self.turn_credit(trajectory), shown)

    def summary(self) -> dict:
        return self._tally.summary()


class Pairs:
    """A file of preference pairs: of whole dialogues, or of turns."""

    kind = "pairs"

    def __init__(self, path: str, limit: int | None = None) -> None:
        self.title = Path(path).name
        self._pairs = read_records(path, PreferencePair, limit)
        self._tally = Tally()

    def scan(self) -> Iterator[Entry]:
        for pair in self._pairs:
            view = pair_view(pair)
            chosen, rejected = view["chosen"], view["rejected"]
            row = {
                "id": pair.id,
                "title": view["title"],
                "task": pair.task_id or content_id(opening(chosen)),
                "turns": sum(m["role"] == "assistant" for m in chosen),
                "turns_rejected": sum(m["role"] == "assistant" for m in rejected),
                "chars": sum(len(m["text"]) for m in chosen if m["role"] == "assistant"),
                "hint": any(m["role"] == "hint" for m in chosen),
                "first": view["shared"],
            }
            rewards = [pair.extra.get("chosen_reward"), pair.extra.get("rejected_reward")]
            if all(isinstance(reward, int | float) for reward in rewards):
                row["rewards"] = rewards
            self._tally.add_row(row)
            yield row, [pair.id, *(m["text"] for m in [*chosen, *rejected[view["shared"] :]])]

    def view(self, number: int) -> dict:
        return {"kind": "pair"} | pair_view(self._pairs[number])

    def summary(self) -> dict:
        return self._tally.summary()


class Comparison:
    """Two runs on the same tasks: the n-th dialogue of a task in one run beside the n-th in the other."""

    kind = "comparison"

    def __init__(self, one: Dialogues, other: Dialogues, names: tuple[str, str]) -> None:
        self.runs, self.names = (one, other), names
        self.title = f"{names[0]} and {names[1]}"
        self._matches: list[tuple[int, int]] = []
        self.left_out = 0

    def scan(self) -> Iterator[Entry]:
        """Raises UserError if the two have no task in common."""
        places = []
        for run in self.runs:
            by_task: dict[str, list[tuple[int, dict]]] = {}
            for number, (row, _) in enumerate(run.scan()):
                by_task.setdefault(row["task"], []).append((number, row))
            places.append(by_task)
        one, other = places
        if not one.keys() & other.keys():
            raise UserError(
                f"{self.runs[0].path} and {self.runs[1].path} have no task in common, so there is nothing to "
                "compare. Play both on the same tasks file."
            )
        for task, rows in one.items():
            for (a, row_a), (b, row_b) in zip(rows, other.get(task, []), strict=False):
                self._matches.append((a, b))
                first, second = self.runs[0].trajectory(a), self.runs[1].trajectory(b)
                shared = shared_messages(_plain(first), _plain(second))
                same = shared == len(first.dialogue_history) == len(second.dialogue_history)
                row = row_a | {"other": row_b, "first": None if same else shared}
                yield row, [*trajectory_texts(first), *trajectory_texts(second)]
        kept = [{a for a, _ in self._matches}, {b for _, b in self._matches}]
        self.left_out = sum(len(rows) for by_task in places for rows in by_task.values()) - sum(map(len, kept))

    def view(self, number: int) -> dict:
        a, b = self._matches[number]
        one, other = self.runs[0].view(a), self.runs[1].view(b)
        return {
            "kind": "comparison",
            "id": one["id"],
            "task": one["task"],
            "names": list(self.names),
            "runs": [one, other],
            "shared": shared_messages(one["messages"], other["messages"]),
        }

    def summary(self) -> dict:
        one, other = (run._tally for run in self.runs)
        return one.compared(other, self.names, self.left_out)


def trajectory_row(trajectory: Trajectory, advantages: dict[int, float]) -> dict:
    """The fields of a dialogue that the list shows, filters and sorts by."""
    row: dict[str, Any] = {
        "id": trajectory.id,
        "title": title_of(trajectory.task.problem_description),
        "task": trajectory.task.id,
        "reward": trajectory.reward,
        "ending": trajectory.ending,
        "turns": trajectory.turns,
        "chars": sum(len(m["content"]) for m in trajectory.dialogue_history if m["role"] == "assistant"),
    }
    if trajectory.failure:
        row["failure"] = str(trajectory.failure.get("kind", "unknown"))
    elif trajectory.grade is not None:
        row["failure"] = trajectory.grade.get("failure")
    if advantages and not 0 <= min(advantages) <= max(advantages) < trajectory.turns:
        raise UserError(
            f"{trajectory.id}: there is credit for a turn that this dialogue of {trajectory.turns} turns does not "
            "have. Are the credit and the dialogues of one file?"
        )
    if advantages:
        row["advantages"] = in_order(advantages)
    words = [oracle_word(message) for message in trajectory.dialogue_history if message["role"] == "assistant"]
    if any(words):
        row["oracle"] = words
    return {name: value for name, value in row.items() if value is not None or name == "reward"}


def trajectory_texts(trajectory: Trajectory) -> list[str]:
    """The texts that the search looks through: id, task, messages, answer."""
    messages = [message["content"] for message in trajectory.dialogue_history]
    return [trajectory.id, trajectory.task.problem_description, *messages, trajectory.answer or ""]


def _plain(trajectory: Trajectory) -> list[dict]:
    return [{"role": m["role"], "text": m["content"]} for m in trajectory.dialogue_history]
