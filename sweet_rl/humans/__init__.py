"""Simulated humans: a language model that knows the reference solution; the scripted one is in
sweet_rl.mini."""

from sweet_rl.humans.base import Human, HumanReply
from sweet_rl.humans.llm import LLMHuman

__all__ = ["Human", "HumanReply", "LLMHuman"]
