"""The rules of a collaboration, and all that belongs to a domain. One file per domain, with its `DOMAIN`."""

from sweet_rl.environments.base import ANSWER_MARKER, AnswerEnvironment, Domain, Environment, ScriptedHuman

__all__ = ["ANSWER_MARKER", "AnswerEnvironment", "Domain", "Environment", "ScriptedHuman"]
