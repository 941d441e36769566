"""Language models behind one asynchronous call: servers, transformers in process, vLLM in process."""

from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.models.load import load_model

__all__ = ["ChatModel", "Completion", "ModelError", "Sampling", "load_model"]
