"""The tiny models that tests of the laboratory share with those of the library."""

from tests.conftest import perturbed_mini, tiny_chat, tiny_chat_model, tiny_critic

__all__ = ["perturbed_mini", "tiny_chat", "tiny_chat_model", "tiny_critic"]
