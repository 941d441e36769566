"""Dialogues between an agent and a simulated human, and the domains that they are about.

A domain is the rules of a dialogue, its simulated human, and the reward of its answers (`domain.py`); `backend/` and
`frontend/` are the two of ColBench, `mini/` has small tasks with a scripted human. `simulate.py` is step 1.
"""

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER, AnswerEnvironment
from sweet_rl.dialogues.domain import Domain, Grade
from sweet_rl.dialogues.simulated_human import HumanReply, HumanSettings, LLMHuman

__all__ = [
    "ANSWER_MARKER", "AnswerEnvironment", "Domain", "Grade", "HumanReply", "HumanSettings", "LLMHuman",
]  # fmt: skip
