"""Backend Programming under the released protocol, to compare with published figures (`--protocol released`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sweet_rl.dialogues.backend.environment import DOMAIN
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.leaks import gives_away
from sweet_rl.dialogues.protocols import HumanReply
from sweet_rl.dialogues.released.environment import ReleasedEnvironment
from sweet_rl.dialogues.released.files import BACKEND_AGENT, BACKEND_HUMAN, file_hashes, protocol_text
from sweet_rl.dialogues.released.human import MAX_REPLY_TOKENS, ReleasedHuman
from sweet_rl.runs.records import Message, Task

SYSTEM = "You are a helpful assistant."
MAX_REPLY_CHARS = 400
HUMAN_VALUES = ("problem_description", "hidden_information", "dialogue_history")


@dataclass
class ReleasedCodeHuman(ReleasedHuman):
    """A human who reads the reference code and the dialogue.

    `prompt_template` is filled in by `str.format` with problem_description, hidden_information, dialogue_history.
    """

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`."""
        prompt = self.prompt_template.format(
            problem_description=task.problem_description,
            hidden_information=task.ground_truth,
            dialogue_history=dialogue_text(dialogue),
        )
        shown = "\n".join(message["content"] for message in dialogue)
        return await self.ask(
            [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}],
            seed,
            lambda text: gives_away(text, task.ground_truth, shown),
        )


def dialogue_text(dialogue: list[Message]) -> str:
    """The dialogue without its system message as the human reads it: `ROLE:CONTENT` and four line feeds a message."""
    spoken = [message for message in dialogue if message["role"] != "system"]
    return "".join(f"{message['role']}:{message['content']}\n\n\n\n" for message in spoken) + "agent:"


def released_domain(folder: str | None) -> Domain:
    """The domain `code` under the released protocol. Raises UserError if its files cannot be had."""
    return replace(
        DOMAIN,
        environment=ReleasedEnvironment,
        agent_prompt=protocol_text(BACKEND_AGENT, folder),
        agent_prompt_values=(),
        human=ReleasedCodeHuman,
        human_prompt=protocol_text(BACKEND_HUMAN, folder),
        human_prompt_values=HUMAN_VALUES,
        max_reply_chars=MAX_REPLY_CHARS,
        max_reply_tokens=MAX_REPLY_TOKENS,
        retries_leaks=False,
        protocol="released",
        protocol_files=file_hashes([BACKEND_AGENT, BACKEND_HUMAN], folder),
    )
