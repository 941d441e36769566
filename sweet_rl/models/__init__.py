"""Language models behind one asynchronous protocol: on servers, or in this process with transformers or vLLM."""

from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings

__all__ = ["CallSettings", "ChatModel", "Completion", "ModelError", "ModelSettings", "Sampling", "load_model"]
