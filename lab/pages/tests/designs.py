"""Dialogues about mini pages, played by the imitated agent, as files of the pipeline."""

from __future__ import annotations

import random

from lab.pages.page_imitation import imitation_dialogue
from lab.pages.page_oracle import usefulness
from lab.pages.page_tasks import draw_page
from lab.pages.pages import SITES
from sweet_rl.domains import ANSWER_MARKER
from sweet_rl.records import Task, Trajectory


def designs(tasks: int = 3, samples: int = 2, seed: int = 0) -> list[Trajectory]:
    """`samples` dialogues per task; the agent of the second one does not know the page."""
    found = []
    for number in range(tasks):
        draw = random.Random(f"{seed} {number}")
        reference = draw_page(SITES[number % len(SITES)], draw)
        for sample in range(samples):
            history = imitation_dialogue(reference, sample == 0, random.Random(f"{seed} {number} {sample}"))
            if sample == 0:
                task = Task(history[0]["content"], reference.html(), {})
            history[0]["content"] = task.problem_description
            for place, message in enumerate(history):
                if message["role"] == "assistant":
                    message["oracle"] = usefulness(reference, history[:place], message["content"])
            _, marker, answer = history[-1]["content"].partition(ANSWER_MARKER)
            ending = "answered" if marker else "turn_limit"
            found.append(
                Trajectory(task, history, answer.strip() if marker else None, id=f"{task.id}-{sample}", ending=ending)
            )
    return found
