"""Dialogues between an agent and a simulated human, and the domains that they are about.

A domain is the rules of a dialogue, its simulated human, and the grader of its answers: `protocols.py` and `domain.py`
say what that is; `backend/` and `frontend/` are the two of ColBench, `mini/` is the embedded default, each with its
`DOMAIN`. `simulate.py` plays the dialogues of a file of tasks, `play.py` one of them.
"""

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER, AnswerEnvironment
from sweet_rl.dialogues.domain import Domain, ScriptedHuman
from sweet_rl.dialogues.function_grader import FunctionGrader
from sweet_rl.dialogues.protocols import Environment, Grade, Grader, Human, HumanReply
from sweet_rl.dialogues.simulated_human import HumanSettings, LLMHuman, ModelHuman

__all__ = [
    "ANSWER_MARKER",
    "AnswerEnvironment",
    "Domain",
    "Environment",
    "FunctionGrader",
    "Grade",
    "Grader",
    "Human",
    "HumanReply",
    "HumanSettings",
    "LLMHuman",
    "ModelHuman",
    "ScriptedHuman",
]
