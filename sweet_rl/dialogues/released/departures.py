"""What a run under the released protocol does otherwise than published, so that its figures do not compare."""

from __future__ import annotations

from collections.abc import Iterator

from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.models.base import Sampling

PUBLISHED = {"max_turns": 10, "temperature": 1.0, "top_p": 1.0, "max_tokens": 1024, "env_temperature": 0.0}
"""Settings of the published dialogues, by the flags of simulate_interactions.py."""


def departures(domain: Domain, max_turns: int, sampling: Sampling, human: HumanSettings) -> Iterator[str]:
    """Yield `--flag value (published value)` for each setting that is not the published one.

    Args:
        domain: Domain under the released protocol, which has the published limits of the human's replies.
        max_turns: Number of messages that the agent may write.
        sampling: How the agent's messages are sampled.
        human: How a model plays the human.
    """
    published = PUBLISHED | {"env_max_chars": domain.max_reply_chars, "env_max_tokens": domain.max_reply_tokens}
    limits = domain.limits(human)
    found = {
        "max_turns": max_turns,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "env_temperature": limits.temperature,
        "env_max_chars": limits.max_chars,
        "env_max_tokens": limits.max_tokens,
    }
    for flag, value in found.items():
        if value != published[flag]:
            yield f"--{flag} {value} ({published[flag]})"
