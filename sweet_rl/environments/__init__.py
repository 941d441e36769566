"""The rules of a collaboration: what the agent is told, when it ends, what its answer is. One domain, one
file."""

from sweet_rl.environments.backend import CodeCollaboration

__all__ = ["CodeCollaboration"]
