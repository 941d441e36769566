"""Frontend Design: the agent shows drafts of a page, hears what differs, and ends with its page (PAPER, ColBench).

Each message may hold one page, which is drawn for the human; of several, the last one counts.
"""

from __future__ import annotations

from sweet_rl.environments.code import CodeCollaboration
from sweet_rl.grading.html import answered_page, extract_page
from sweet_rl.models.base import Completion, Message


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


def newest_draft(dialogue: list[Message]) -> str | None:
    """The page of the agent's newest message that holds one; None before its first draft."""
    for message in reversed(dialogue):
        if message["role"] == "assistant":
            page = extract_page(message["content"])
            if page is not None:
                return page
    return None
