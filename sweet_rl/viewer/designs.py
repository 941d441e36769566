"""Design dialogues: a file of trajectories whose turns hold pages, each shown as a picture beside the reference's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.errors import UserError
from sweet_rl.mini.page_oracle import effect, usefulness
from sweet_rl.mini.pages import read_page
from sweet_rl.records import Trajectory
from sweet_rl.rewards.html import answered_page, extract_page
from sweet_rl.viewer.candidates import Ranked
from sweet_rl.viewer.entries import Dialogues, Entry
from sweet_rl.viewer.pictures import Pictures


class Designs(Dialogues):
    """A file of Frontend Design's trajectories with the pictures of their pages."""

    kind = "designs"

    def __init__(
        self, path: str, pictures: Pictures, limit: int | None = None, credit: Any = None, ranked: Ranked | None = None
    ) -> None:
        super().__init__(path, limit, credit, ranked)
        self.pictures = pictures

    def scan(self) -> Iterator[Entry]:
        """Raises UserError where the first reference is no page."""
        for number, entry in enumerate(super().scan()):
            if number == 0 and answered_page(self.trajectory(0).task.ground_truth) is None:
                raise UserError(
                    f"{self.file.path}: the reference of its first dialogue is no HTML page. Dialogues about code are "
                    "shown by visualize_dialogue_histories.py."
                )
            yield entry

    def view(self, number: int) -> dict:
        """The dialogue, with `pictures`: {reference, turns: [{turn, name, width, height, failure, similarity}]}.

        A message with a page has its source as `page` and its picture as `picture`; so has a candidate. On mini pages
        `effect` is what the turn repaired and spoiled.
        """
        view = super().view(number)
        trajectory = self.trajectory(number)
        reference = trajectory.task.ground_truth
        mini = read_page(reference)
        turns = []
        for place, message in enumerate(view["messages"]):
            if "turn" not in message:
                continue
            if found := mini_effect(trajectory, place):
                message["effect"] = found
            for candidate in message.get("candidates", ()):
                if mini is not None:
                    candidate["oracle"] = usefulness(mini, trajectory.dialogue_history[:place], candidate["text"])
                if page := shown_page(candidate["text"]):
                    candidate["page"], candidate["picture"] = page, {"name": self.pictures.name(page)}
            page = shown_page(message["text"])
            if page is None:
                continue
            picture = self.pictures.view(page)
            similarity = self.pictures.similarity(page, reference)
            if similarity is not None:
                picture["similarity"] = similarity
            message["page"], message["picture"] = page, picture
            turns.append({"turn": message["turn"], **picture})
        view["pictures"] = {"reference": self.pictures.view(reference), "turns": turns}
        return view


def shown_page(text: str) -> str | None:
    """The page in a message: a complete one, else, in an answer, what a browser can make of the rest."""
    page = extract_page(text)
    if page is not None:
        return page
    _, marker, answer = text.partition(ANSWER_MARKER)
    return answered_page(answer) if marker else None


def mini_effect(trajectory: Trajectory, place: int) -> dict | None:
    """What the turn at `place` did to a mini page, by its oracle; None of other pages."""
    reference = read_page(trajectory.task.ground_truth)
    if reference is None:
        return None
    history = trajectory.dialogue_history
    found = effect(reference, history[:place], history[place]["content"])
    return {"repaired": list(found.repaired), "spoiled": list(found.spoiled), "wrong": list(found.wrong)}
