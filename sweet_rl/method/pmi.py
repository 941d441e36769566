"""Pointwise information (PMI): how much likelier the reference solution makes a turn, under any one language model.

Not in the paper. The score log pi(a|o,c) - log pi(a|o) needs no training. It is part of the SWEET critic's score if the
reference of the log-ratio does not see the reference solution.
"""

from __future__ import annotations

from sweet_rl.method.critics import CriticType
from sweet_rl.method.sweet_critic import LogRatioCritic, TokenCriticSettings, load_models


def load_pmi(settings: TokenCriticSettings) -> LogRatioCritic:
    """Load the model, on the GPU if there is one, or connect to its server. Raises UserError if it cannot be loaded."""
    chat, (model,) = load_models(settings)
    return LogRatioCritic(chat, model, model, hint=True, reference_hint=False, normalize=settings.normalize)


CRITIC = CriticType(TokenCriticSettings, load_pmi)
