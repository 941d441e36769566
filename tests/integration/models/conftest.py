import pytest


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """The OpenAI client waits a short time between its attempts."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
