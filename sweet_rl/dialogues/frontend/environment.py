"""Frontend Design (the paper, section 3): the agent shows drafts of a web page to a human who sees them drawn.

Each message may hold one page; of several, the last one counts. The reward is the cosine similarity of the pictures
of the answer and of the reference page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sweet_rl.dialogues.answer_environment import AnswerEnvironment
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.dialogues.frontend.encoders import CLIP, load_encoder
from sweet_rl.dialogues.frontend.extract_page import answered_page
from sweet_rl.dialogues.frontend.vision_human import PROMPT_VALUES, VisionHuman
from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task


@dataclass(frozen=True)
class PageGrading(BrowserSettings):
    """How pages are drawn and compared.

    Attributes:
        image_encoder: CLIP ViT-B/32, as its name on the hub or a folder with its weights; or efficientnet-lite0, which
            needs no download and whose similarities are on another scale.
        device: Device of the encoder; by default the GPU, if there is one.
        concurrency: Number of answers that an `async def reward` of a domain judges at the same time.
        paper_grader: Grade an answer without a picture as a black square, as in the release, only to compare with its
            figures.
    """

    image_encoder: str = CLIP
    device: Annotated[str | None, UNRECORDED] = None
    concurrency: Annotated[int, UNRECORDED] = 32
    paper_grader: bool = False


def make_grader(settings: PageGrading) -> PageGrader:
    """The grader of pages, with its encoder and its browsers."""
    encoder = load_encoder(settings.image_encoder, settings.device)
    return PageGrader(PageRenderer.from_settings(settings), encoder, settings.paper_grader)


def check_tasks(tasks: Sequence[Task], path: str) -> None:
    """Raise UserError if all tasks have tests."""
    if all(task.test_cases for task in tasks):
        raise UserError(f"{path}: its tasks have test_cases. Backend trajectories are graded by evaluate_code.py.")


class FrontendEnvironment(AnswerEnvironment):
    """An `AnswerEnvironment` whose answer is the page after the marker, without the words around it.

    If no page follows the marker, the answer is those words, so that nothing is lost.
    """

    def read_answer(self, text: str) -> str:
        return answered_page(text) or text


DOMAIN = Domain(
    name="html",
    environment=FrontendEnvironment,
    agent_prompt="html_agent.txt",
    human=VisionHuman,
    human_prompt="html_user.txt",
    human_prompt_values=PROMPT_VALUES,
    max_reply_chars=1000,
    max_reply_tokens=512,
    grader=make_grader,
    check_tasks=check_tasks,
    draws_pages=True,
    min_gap=0.1,
)
