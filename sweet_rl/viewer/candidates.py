"""Ranked candidates: what else might have been said at a turn, in the critic's order, dialogue by dialogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.records import PreferencePair, TurnCandidates
from sweet_rl.viewer.markup import messages_of
from sweet_rl.viewer.source import Place, RecordFile
from sweet_rl.viewer.summary import Tally
from sweet_rl.viewer.views import (
    candidates_view,
    numbered,
    oracle_word,
    task_view,
    title_of,
    utf16_length,
)


class Ranked:
    """A file of candidates by dialogue and turn, with the pairs drawn from it where their file is given."""

    def __init__(self, path: str, pair_path: str | None = None, limit: int | None = None, credit: Any = None) -> None:
        self.file = RecordFile(path, TurnCandidates, limit)
        self.credit = credit
        self.pairs = None if pair_path is None else RecordFile(pair_path, PreferencePair)
        self.turns: dict[str, dict[int, Place]] = {}
        self._drawn: dict[str, list[Place]] = {}
        for place, record in self.file.scan():
            dialogue, turn = dialogue_of(record)
            self.turns.setdefault(dialogue, {})[turn] = place
        if self.pairs is not None:
            for place, _ in self.pairs.scan():
                self._drawn.setdefault(place.id.rpartition("-")[0], []).append(place)
            places = {place.id for turns_of in self.turns.values() for place in turns_of.values()}
            if not places & self._drawn.keys():
                raise UserError(
                    f"{pair_path}: none of its pairs is of a turn in {path}. Give the output of "
                    "generate_random_pairs_from_ranks.py on that file."
                )

    def records(self, dialogue: str) -> dict[int, TurnCandidates]:
        """The candidates of a dialogue, by turn in order; none for one that was not sampled."""
        return {turn: self.file.read(place) for turn, place in sorted(self.turns.get(dialogue, {}).items())}

    def view(self, record: TurnCandidates, dialogue: list[dict] | None) -> list[dict]:
        """A turn's candidates as the page shows them."""
        pairs = None if self.pairs is None else [self.pairs.read(p) for p in self._drawn.get(record.id, [])]
        return candidates_view(record, dialogue, pairs, self.credit.turns(record.id) if self.credit else None)


def dialogue_of(record: TurnCandidates) -> tuple[str, int]:
    """The dialogue that a turn's candidates belong to, and the turn; a dialogue of its own where that is not known."""
    if record.turn is not None and record.id.endswith(f"-{record.turn}"):
        return record.id.removesuffix(f"-{record.turn}"), record.turn
    return record.id, record.turn or 0


class Candidates:
    """A file of candidates, ranked or not, as the dialogues that they were sampled for."""

    kind = "candidates"

    def __init__(self, ranked: Ranked) -> None:
        self.ranked, self.title = ranked, ranked.file.path.name
        self._names: list[str] = []
        self._tally = Tally()

    def scan(self) -> Iterator[tuple[dict, list[str]]]:
        for name in self.ranked.turns:
            self._names.append(name)
            view = self.view(len(self._names) - 1)
            records = [m for m in view["messages"] if "candidates" in m]
            row = {"id": name, "title": title_of(view["task"]["description"]), "task": view["task"]["id"]}
            row["turns"] = sum(message["role"] == "assistant" for message in view["messages"])
            row["candidates"] = len(records)
            row["chars"] = sum(len(m["text"]) for m in view["messages"] if m["role"] == "assistant")
            turn_scores = {m["turn"]: m["credit"]["advantage"] for m in view["messages"] if m.get("credit")}
            if turn_scores:
                row["advantages"] = in_order(turn_scores)
            self._tally.add_candidates(row, [m["candidates"] for m in records], [m["turn"] for m in records])
            texts = [m["text"] for m in view["messages"]] + [c["text"] for m in records for c in m["candidates"]]
            yield row, [name, view["task"]["description"], *texts]

    def view(self, number: int) -> dict:
        """The dialogue as the last sampled turn was given it, with the candidates of every turn that has some."""
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
        scores = said_scores(records)
        for position, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            own = message["turn"]
            record = records.get(own) or (last if own == turn else None)
            if record is None:
                continue
            before = [{"role": m["role"], "content": m["text"]} for m in messages[:position]]
            message["candidates"] = self.ranked.view(record, before)
            if own in scores:
                message["credit"] = scores[own]
            prompt = prompts.get(own, longest)
            message["prompt"] = utf16_length(prompt) if longest.startswith(prompt) else prompt
            word = oracle_word(record.task, before, message["text"]) if record.task else None
            if word:
                message["oracle"] = word
        opening = next((m["text"] for m in messages if m["role"] in ("user", "text")), "")
        task = task_view(last.task) if last.task else {"id": name, "description": opening}
        return {"kind": "candidates", "id": name, "task": task, "messages": messages, "prompt": longest}

    def summary(self) -> dict:
        return self._tally.summary()


def said_scores(records: dict[int, TurnCandidates]) -> dict[int, dict]:
    """For each turn the score of the candidate that says what the agent did say, where one does."""
    scores = {}
    for turn, record in records.items():
        if record.judge_scores is not None and record.older_output in record.additional_outputs:
            score = record.judge_scores[record.additional_outputs.index(record.older_output)]
            scores[turn] = {"advantage": round(score, 4), "of": "candidate"}
    return scores


def in_order(values: dict[int, float]) -> list[float | None]:
    """A turn's value at its place, None where there is none."""
    return [None if values.get(turn) is None else round(values[turn], 4) for turn in range(max(values) + 1)]
