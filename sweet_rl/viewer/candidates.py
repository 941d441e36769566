"""Files of candidates, ranked or not: the alternatives of each turn, grouped by dialogue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, TurnCandidates, read_records
from sweet_rl.viewer.messages import messages_of
from sweet_rl.viewer.summary import Tally
from sweet_rl.viewer.views import candidates_view, numbered, opening, task_view, title_of, utf16_length


class Ranked:
    """A file of candidates by dialogue and turn, with the pairs drawn from it if their file is given."""

    def __init__(self, path: str, pair_path: str | None = None, limit: int | None = None, credit: Any = None) -> None:
        self.path, self.credit = Path(path), credit
        self.turns: dict[str, dict[int, TurnCandidates]] = {}
        for record in read_records(path, TurnCandidates, limit):
            dialogue, turn = dialogue_of(record)
            self.turns.setdefault(dialogue, {})[turn] = record
        self.pairs: dict[str, list[PreferencePair]] | None = None
        if pair_path is not None:
            self.pairs = {}
            for pair in read_records(pair_path, PreferencePair):
                self.pairs.setdefault(pair.id.rpartition("-")[0], []).append(pair)
            if not self.pairs.keys() & {record.id for own in self.turns.values() for record in own.values()}:
                raise UserError(
                    f"{pair_path}: none of its pairs is of a turn in {path}. Give the output of "
                    "generate_random_pairs_from_ranks.py on that file."
                )

    def records(self, dialogue: str) -> dict[int, TurnCandidates]:
        """The candidates of a dialogue by turn, in order; empty if the dialogue was not sampled."""
        return dict(sorted(self.turns.get(dialogue, {}).items()))

    def view(self, record: TurnCandidates) -> list[dict]:
        """The candidates of a turn as the page shows them."""
        pairs = None if self.pairs is None else self.pairs.get(record.id, [])
        return candidates_view(record, pairs, self.credit.turns(record.id) if self.credit else None)


def dialogue_of(record: TurnCandidates) -> tuple[str, int]:
    """Return (id of the dialogue, turn) of the candidates; an unknown dialogue is replaced by the record's own id."""
    if record.turn is not None and record.id.endswith(f"-{record.turn}"):
        return record.id.removesuffix(f"-{record.turn}"), record.turn
    return record.id, record.turn or 0


class Candidates:
    """A file of candidates, ranked or not, as the dialogues that they were sampled for."""

    kind = "candidates"

    def __init__(self, ranked: Ranked) -> None:
        self.ranked, self.title = ranked, ranked.path.name
        self._names: list[str] = []
        self._tally = Tally()

    def scan(self) -> Iterator[tuple[dict, list[str]]]:
        for name in self.ranked.turns:
            self._names.append(name)
            view = self.view(len(self._names) - 1)
            records = [m for m in view["messages"] if "candidates" in m]
            row = {"id": name, "title": view["task"]["title"], "task": view["task"]["id"]}
            row["turns"] = sum(message["role"] == "assistant" for message in view["messages"])
            row["candidates"] = len(records)
            row["chars"] = sum(len(m["text"]) for m in view["messages"] if m["role"] == "assistant")
            scores = {m["turn"]: m["credit"]["advantage"] for m in view["messages"] if m.get("credit")}
            if scores:
                row["advantages"] = in_order(scores)
            self._tally.add_candidates(row, {m["turn"]: m["candidates"] for m in records})
            texts = [m["text"] for m in view["messages"]] + [c["text"] for m in records for c in m["candidates"]]
            yield row, [name, view["task"]["description"], *texts]

    def view(self, number: int) -> dict:
        """The dialogue up to the last sampled turn, with the candidates of every sampled turn."""
        name = self._names[number]
        records = self.ranked.records(name)
        last = records[max(records)]
        messages = numbered(messages_of(last.input))
        turn = sum(message["role"] == "assistant" for message in messages)
        messages.append({"role": "assistant", "text": last.older_output, "turn": turn})
        prompts: dict[int, str] = {}
        for sampled, record in records.items():
            place = sampled if len(records) > 1 or record.turn is not None else turn
            prompts[place] = record.input if isinstance(record.input, str) else "".join(p["text"] for p in record.input)
        longest = max(prompts.values(), key=len)
        scores = scores_of_own_turns(records)
        for message in messages:
            if message["role"] != "assistant":
                continue
            own = message["turn"]
            shown = records.get(own) or (last if own == turn else None)
            if shown is None:
                continue
            message["candidates"] = self.ranked.view(shown)
            if own in scores:
                message["credit"] = scores[own]
            prompt = prompts.get(own, longest)
            message["prompt"] = utf16_length(prompt) if longest.startswith(prompt) else prompt
        words = opening(messages)
        task = task_view(last.task) if last.task else {"id": name, "title": title_of(words), "description": words}
        return {"kind": "candidates", "id": name, "task": task, "messages": messages, "prompt": longest}

    def summary(self) -> dict:
        return self._tally.summary()


def scores_of_own_turns(records: dict[int, TurnCandidates]) -> dict[int, dict]:
    """For each turn the score of the candidate with the same text as the turn; turns without one are left out."""
    scores = {}
    for turn, record in records.items():
        if record.judge_scores is not None and record.older_output in record.additional_outputs:
            score = record.judge_scores[record.additional_outputs.index(record.older_output)]
            scores[turn] = {"advantage": round(score, 4), "of": "candidate"}
    return scores


def in_order(values: dict[int, float]) -> list[float | None]:
    """The values by turn as a list, rounded, with None for turns without a value."""
    return [None if values.get(turn) is None else round(values[turn], 4) for turn in range(max(values) + 1)]
