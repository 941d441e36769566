"""Simulated humans, who know the reference solution. Those that a language model plays are here; scripted ones are in
sweet_rl/mini."""

from sweet_rl.humans.base import Human, HumanReply, ModelHuman
from sweet_rl.humans.llm import LLMHuman

__all__ = ["Human", "HumanReply", "LLMHuman", "ModelHuman"]
