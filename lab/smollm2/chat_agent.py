"""A pretrained chat model that imitates the dialogues of a poor agent of the mini tasks."""

from __future__ import annotations

import torch

from lab.mini_agents.pretraining import ImitationSettings, TrainableAgent
from sweet_rl.method.privileged_information import with_text
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_weights


class ChatTokens:
    """Turns dialogues into the token ids of a chat model and loss weights: 1 for its own turns, else 0."""

    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat

    def encode(self, hint: str, messages: list[dict]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids and the loss weight of each: int64 [T], float32 [T]."""
        parts = self.chat.dialogue(messages)
        ids, train = self.chat.encode(with_text(parts, hint) if hint else parts)
        return torch.tensor(ids), torch.tensor(train, dtype=torch.float32)


def chat_agent(name: str, settings: ImitationSettings) -> TrainableAgent:
    """Return a chat model of the Llama family, a folder or a hub name, that is trained with AdamW."""
    chat, model = ChatFormat.from_pretrained(name), load_weights(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.0)
    return TrainableAgent(model, chat.tokenizer, ChatTokens(chat), [optimizer])
