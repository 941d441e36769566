"""A domain is the rules of a dialogue, its simulated human, and the grader of its answers.

`base.py` and `domain.py` say what that is; `backend/` and `frontend/` are the two of ColBench, each with its `DOMAIN`.
"""

from sweet_rl.domains.answer_environment import ANSWER_MARKER, AnswerEnvironment
from sweet_rl.domains.base import Environment, Grade, Grader, Human, HumanReply
from sweet_rl.domains.domain import Domain, ScriptedHuman
from sweet_rl.domains.function_grader import FunctionGrader
from sweet_rl.domains.simulated_human import HumanSettings, LLMHuman, ModelHuman

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
