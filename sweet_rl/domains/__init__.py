"""What a domain is, and the two of ColBench: one folder each, with its `DOMAIN`.

A domain is the rules of a dialogue, its simulated human, and the grader of its answers.
"""

from sweet_rl.domains.base import ANSWER_MARKER, AnswerEnvironment, Domain, Environment, ScriptedHuman
from sweet_rl.domains.human import Human, HumanReply, ModelHuman
from sweet_rl.domains.llm_human import LLMHuman

__all__ = [
    "ANSWER_MARKER",
    "AnswerEnvironment",
    "Domain",
    "Environment",
    "Human",
    "HumanReply",
    "LLMHuman",
    "ModelHuman",
    "ScriptedHuman",
]
