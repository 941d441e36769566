"""Frontend Design: the agent shows drafts of a page, hears what differs, and ends with its page (PAPER, ColBench).

Each message may hold one page, which is drawn for the human; of several, the last one counts.
"""

from __future__ import annotations

from sweet_rl.environments.backend import CodeCollaboration
from sweet_rl.models.base import Completion
from sweet_rl.rewards.html import answered_page


class HtmlCollaboration(CodeCollaboration):
    """The dialogue about a page: as `CodeCollaboration`, with the page of the last message as the answer.

    `answer` is the page that follows the marker, without the words around it; where no page follows, those words, so
    that nothing is lost. A dialogue whose turns are used up has no answer, whatever page it showed last: the agent is
    told that only its answer counts, and an unfinished draft is never graded as if it had been one.
    """

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        super().step(completion, prompt_text)
        if self.answer is not None:
            self.answer = answered_page(self.answer) or self.answer
