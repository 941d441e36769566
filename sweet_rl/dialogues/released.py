"""The released protocol of ColBench (`--protocol released`): dialogues whose figures compare with published ones.

Its texts are CC-BY-NC 4.0 and no part of this package: they are downloaded by commit and SHA-256 to the user's cache
when they are first needed, or read from a folder (`--protocol_files DIR`) that holds them under the same paths.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import logging
import os
import re
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER, AnswerEnvironment
from sweet_rl.dialogues.backend import environment as backend
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.frontend import environment as frontend
from sweet_rl.dialogues.frontend.vision_human import draw_both
from sweet_rl.dialogues.frontend.websight import with_fixed_pictures
from sweet_rl.dialogues.leaks import gives_away, holds_markup
from sweet_rl.dialogues.simulated_human import HumanReply, HumanSettings
from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.paths import cache_folder
from sweet_rl.runs.records import Message, Task, as_shown

logger = logging.getLogger(__name__)
REPOSITORY = "facebookresearch/sweet_rl"
COMMIT = "38daf2a58497e898a65ef530a7b1c13ff4b0f128"
ADDRESS = "https://raw.githubusercontent.com"
LICENCE = f"The prompts of the released protocol are those of github.com/{REPOSITORY}: CC-BY-NC 4.0, no commercial use."
PUBLISHED = {"max_turns": 10, "temperature": 1.0, "max_tokens": 1024, "env_temperature": 0.0}
"""Settings of the published dialogues, by the flags of simulate_interactions.py."""
OUTPUT_MARKER = "OUTPUT:"
SYSTEM = "You are a helpful assistant."
NO_RESPONSE = "No response."
MAX_REPLY_TOKENS, CODE_REPLY_CHARS, PAGE_REPLY_CHARS = 4096, 400, 1000
BAD_REQUEST = 400
_PAGES = (re.compile(r"<html[^>]*>.*?</html>", re.DOTALL), re.compile(r"<body[^>]*>.*?</body>", re.DOTALL))

# ------------------------------------------------------------------------------------------------ the texts


class ProtocolFile(NamedTuple):
    """One file of the protocol: its path in the repository, and the SHA-256 of its bytes; None: the commit fixes it."""

    path: str
    sha256: str | None


BACKEND_AGENT = ProtocolFile(
    "prompts/llm_agent_code_prompt.txt", "429c1c5ae65a2488ee8cb37058b9aff91341b2390de3beb934dd52a7580cdce3"
)
BACKEND_HUMAN = ProtocolFile(
    "prompts/human_simulator_code_prompt.txt", "0f522a5f95d06d7b1305ddb8850164d57eeef1a13114207261cd46f23e73928c"
)
FRONTEND_AGENT = ProtocolFile(
    "prompts/llm_agent_html_prompt.txt", "045b608288f5c38f0621d6afac38f3da63a5484208f9cc47d740264a0d184e88"
)
FRONTEND_HUMAN = ProtocolFile(
    "prompts/human_simulator_html_prompt.txt", "8e0dee786bfd203da4cb6f114577ac8486dccf077436736d0141c256d886a4d6"
)
FRONTEND_SENTENCES = ProtocolFile("sweet_rl/environments/human_design_interaction_env.py", None)


def protocol_text(file: ProtocolFile, folder: str | None = None) -> str:
    """The text of a file of the protocol.

    Args:
        file: The file.
        folder: Folder that holds the files under their paths; by default they are downloaded once to the cache.

    Raises:
        UserError: The file cannot be read or downloaded, or its hash is another one.
    """
    address = f"{ADDRESS}/{REPOSITORY}/{COMMIT}/{file.path}"
    path = (cache_folder("protocol") / COMMIT if folder is None else Path(folder)) / file.path
    try:
        if folder is not None or path.is_file():
            content = path.read_bytes()
        else:
            print(f"{LICENCE}\n{file.path} is downloaded to {path}.", flush=True)
            with urllib.request.urlopen(address, timeout=30) as reply:
                content = reply.read()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read, or downloaded from {address}: {first_line(error)}. Without a network give "
            "protocol_files, a folder with the files under these paths; the protocol sweet_rl needs none."
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and digest != file.sha256:
        raise UserError(
            f"{path} is not the file of the released protocol: its SHA-256 is {digest}, not {file.sha256}. Remove it, "
            "and it is fetched again; or correct protocol_files."
        )
    if folder is None and not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial_file = path.with_name(f"{path.name}.{os.getpid()}.partial")
        partial_file.write_bytes(content)
        partial_file.replace(path)
    return content.decode("utf-8")


def file_hashes(files: Sequence[ProtocolFile], folder: str | None = None) -> dict[str, str]:
    """The SHA-256 of each file by its path. Arguments and errors as for `protocol_text`."""
    return {file.path: hashlib.sha256(protocol_text(file, folder).encode()).hexdigest() for file in files}


def text_values(source: str, function: str) -> list[str]:
    """The string constants with a space in them that are values of the key "text" in a function, in their order.

    The source, a Python file, is parsed and never run. Without such a function there are none.
    """
    texts = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function:
            for found in (one for one in ast.walk(node) if isinstance(one, ast.Dict)):
                for key, value in zip(found.keys, found.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "text" and isinstance(value, ast.Constant):
                        texts.append((value.lineno, value.col_offset, str(value.value)))
    return [text for _, _, text in sorted(texts) if " " in text]


# ------------------------------------------------------------------------------------------------ the rules


class ReleasedEnvironment(AnswerEnvironment):
    """An `AnswerEnvironment` of Backend Programming as it was released.

    `agent_prompt` is the system message, in which nothing is filled in, and nothing is stripped from a text. The
    dialogue ends at a reply with ANSWER_MARKER, or at reply `max_turns`, which is then the whole answer.
    """

    def __init__(self, task: Task, agent_prompt: str, max_turns: int = 10) -> None:
        super().__init__(task, agent_prompt, max_turns)
        self.dialogue = [
            {"role": "system", "content": agent_prompt},
            {"role": "user", "content": task.problem_description},
        ]

    def observe(self) -> list[Message]:
        """The messages as the agent sees them: of an earlier reply only what was shown of it."""
        return as_shown(self.dialogue)

    def shown_and_sampled(self, completion: Completion, prompt_text: str | None) -> tuple[str, str]:
        """What stands between the first and the second OUTPUT_MARKER, or all behind the first, and the text before the
        second."""
        pieces = completion.text.split(OUTPUT_MARKER)
        if len(pieces) == 1:
            return completion.text, completion.text
        return pieces[1], OUTPUT_MARKER.join(pieces[:2])

    def end_turn(self, content: str) -> None:
        if ANSWER_MARKER in content:
            self.ending = "answered"
        elif self.turns >= self.max_turns:
            self.ending = "turn_limit"
        if self.over:
            self.answer = self.last_answer(content)

    def last_answer(self, content: str) -> str | None:
        """The answer in the last reply: what stands between the first and the second marker, or all of it."""
        return content.split(ANSWER_MARKER)[1] if ANSWER_MARKER in content else content


def page_of(content: str) -> str | None:
    """The page of a message: its first `<html>` element, else its first `<body>` element; None if it has neither."""
    text = with_fixed_pictures(content)
    return next((found[0] for pattern in _PAGES if (found := pattern.search(text))), None)


def newest_page(dialogue: list[Message]) -> str | None:
    """The page of the agent's newest message that holds one."""
    pages = (page_of(message["content"]) for message in reversed(dialogue) if message["role"] == "assistant")
    return next((page for page in pages if page is not None), None)


class ReleasedPageEnvironment(ReleasedEnvironment):
    """A `ReleasedEnvironment` whose answer is the newest page of the dialogue."""

    def last_answer(self, content: str) -> str | None:
        return newest_page(self.dialogue)


# ------------------------------------------------------------------------------------------------ the humans


@dataclass
class ReleasedHuman:
    """A human that a language model plays as it was released.

    Replies are cut at `max_chars`, in the middle of a word if need be. One that gives the reference solution away is
    counted and passes, whatever `retry_leaks`.
    """

    model: ChatModel
    prompt_template: str
    settings: HumanSettings = HumanSettings()
    _warned: bool = field(default=False, init=False)

    async def ask(self, messages: list[Any], seed: int, gives_away: Callable[[str], bool]) -> HumanReply:
        """The model's reply to the messages; NO_RESPONSE if its server refuses them as a bad request.

        Raises:
            ModelError: There is no reply for another reason.
        """
        tokens = self.settings.max_tokens or MAX_REPLY_TOKENS
        sampling = Sampling(temperature=self.settings.temperature, max_tokens=tokens, seed=seed)
        try:
            (completion,) = await self.model.complete(messages, sampling)
        except ModelError as error:
            status = getattr(error.__cause__, "status_code", None)
            bad = status == BAD_REQUEST or (status is None and error.kind == "context")  # a model in this process
            if error.fatal or not bad:
                raise
            if not self._warned:
                self._warned = True
                logger.warning("human: the reply to a bad request is %r, as published: %s", NO_RESPONSE, error)
            return HumanReply(NO_RESPONSE)
        text = completion.text[: self.settings.max_chars]
        return HumanReply(text, int(gives_away(text)), completion.prompt_tokens, completion.completion_tokens)


@dataclass
class ReleasedCodeHuman(ReleasedHuman):
    """A human who reads the reference code and the dialogue. `prompt_template` is filled in by `str.format`."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`."""
        prompt = self.prompt_template.format(
            problem_description=task.problem_description,
            hidden_information=task.ground_truth,
            dialogue_history=dialogue_text(dialogue),
        )
        shown = "\n".join(message["content"] for message in dialogue)
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
        return await self.ask(messages, seed, lambda text: gives_away(text, task.ground_truth, shown))


def dialogue_text(dialogue: list[Message]) -> str:
    """The dialogue without its system message as the human reads it: `ROLE:CONTENT` and four line feeds a message."""
    spoken = [message for message in dialogue if message["role"] != "system"]
    return "".join(f"{message['role']}:{message['content']}\n\n\n\n" for message in spoken) + "agent:"


@dataclass
class ReleasedPageHuman(ReleasedHuman):
    """A human who sees the picture of the agent's newest page and that of the reference page.

    `sentences` stand before the picture of the agent's page, in its place if there is none, and before the picture of
    the reference page.
    """

    sentences: Sequence[str] = field(kw_only=True)
    renderer: PageRenderer = field(kw_only=True)

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`. Raises ModelError (kind "reference") if the reference page cannot be drawn."""
        reference, drawn = await draw_both(self.renderer, task, newest_page(dialogue))
        before, without, last = self.sentences
        parts = [_text(self.prompt_template)]
        if drawn is not None and drawn.png is not None:
            parts += [_text(before), self._picture(drawn.png)]
        else:
            parts.append(_text(without))
        parts += [_text(last), self._picture(reference)]
        return await self.ask([{"role": "user", "content": parts}], seed, holds_markup)

    def _picture(self, png: bytes) -> dict[str, Any]:
        name: Any = self.model  # the name that a server has for it may stand behind a cache
        while not isinstance(name, str):
            name = getattr(name, "model", "")
        kind = "image/jpeg" if "gpt" in name.lower() else "image"
        url = f"data:{kind};base64,{base64.b64encode(png).decode('ascii')}"
        return {"type": "image_url", "image_url": {"url": url}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# ------------------------------------------------------------------------------------------------ the domains


def released_code(folder: str | None) -> Domain:
    """The domain `code` under the released protocol. Raises UserError if its files cannot be had."""
    return replace(
        backend.DOMAIN,
        environment=ReleasedEnvironment,
        agent_prompt=protocol_text(BACKEND_AGENT, folder),
        human=ReleasedCodeHuman,
        human_prompt=protocol_text(BACKEND_HUMAN, folder),
        max_reply_chars=CODE_REPLY_CHARS,
        max_reply_tokens=MAX_REPLY_TOKENS,
        protocol="released",
        protocol_files=file_hashes([BACKEND_AGENT, BACKEND_HUMAN], folder),
    )


def released_html(folder: str | None) -> Domain:
    """The domain `html` under the released protocol. Raises UserError if its files cannot be had."""
    sentences = text_values(protocol_text(FRONTEND_SENTENCES, folder), "invoke_model")
    if len(sentences) != 3:
        raise UserError(
            f"protocol_files: {FRONTEND_SENTENCES.path} has {len(sentences)} sentences of the human's message, not 3."
        )
    return replace(
        frontend.DOMAIN,
        environment=ReleasedPageEnvironment,
        agent_prompt=protocol_text(FRONTEND_AGENT, folder),
        human=partial(ReleasedPageHuman, sentences=sentences),
        human_prompt=protocol_text(FRONTEND_HUMAN, folder),
        max_reply_chars=PAGE_REPLY_CHARS,
        max_reply_tokens=MAX_REPLY_TOKENS,
        protocol="released",
        protocol_files=file_hashes([FRONTEND_AGENT, FRONTEND_HUMAN, FRONTEND_SENTENCES], folder),
    )


def differences_from_published(
    domain: Domain, max_turns: int, sampling: Sampling, human: HumanSettings
) -> Iterator[str]:
    """Yield `--flag value (published value)` for each setting that is not the published one."""
    published = PUBLISHED | {"env_max_chars": domain.max_reply_chars, "env_max_tokens": domain.max_reply_tokens}
    replies = domain.reply_settings(human)
    settings: dict[str, float | None] = {"max_turns": max_turns, "env_temperature": replies.temperature}
    settings |= {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    settings |= {"env_max_chars": replies.max_chars, "env_max_tokens": replies.max_tokens}
    for flag, value in published.items():
        if settings[flag] != value:
            yield f"--{flag} {settings[flag]} ({value})"
