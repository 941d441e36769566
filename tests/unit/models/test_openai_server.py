"""What the model on a server does without any server."""

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.openai_server import OpenAIServer, backoff


def test_waits_double_up_to_a_bound_and_are_random():
    for failures, bound in ((1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 6.0), (30, 6.0)):
        waits = {backoff(failures, longest=6.0) for _ in range(20)}
        assert len(waits) > 1 and all(bound / 2 <= wait <= bound for wait in waits)


def test_the_hosted_api_is_not_called_without_a_key():
    with pytest.raises(UserError, match="needs a key"):
        OpenAIServer("gpt")
