"""Language models behind one asynchronous protocol: on servers, or in this process with transformers or vLLM.

`load.load_model` loads one by its name.
"""

from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings

__all__ = ["CallSettings", "ChatModel", "Completion", "ModelError", "ModelSettings", "Sampling"]
