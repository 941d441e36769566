"""Messages -> parts -> token ids, with the agent's own tokens marked. No other module knows chat templates.

A prompt consists of the agent's turns as they were sampled and of the text that the template writes between them
("glue"). The glue is found by rendering the template with a placeholder for each turn, so the template cannot change
a turn (trim it, drop its reasoning). Therefore the tokens of each prompt are a prefix of the next prompt, and of the
dialogue that training sees.

An EOS is trained only if the model produced it. After a reply that was cut, the EOS belongs to the glue.
"""

import contextlib
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

from sweet_rl.models.context import context_length
from sweet_rl.models.weights import load_config, model_path
from sweet_rl.runs.errors import UserError, first_line, read_by_library
from sweet_rl.runs.records import Part

# Placeholders in the rendered text: an assistant turn, and the fence around special-token text in a content.
# If a content holds these characters itself, they are fenced as well.
_TURN, _OPEN, _CLOSE = "\ue0f0", "\ue0f1", "\ue0f2"
_TODAY = re.compile(r"""\bstrftime_now\(\s*(?:'([^']*)'|"([^"]*)")\s*\)""")
_FENCED = re.compile(f"{_OPEN}([0-9a-f]+){_CLOSE}")
_CACHED = 16384
TEMPLATE_SECONDS = 10.0
TEMPLATE_DATE = date(2024, 7, 26)
"""What chat templates get for today's date (Llama 3.2, 3.3), so that a prompt is the same on every day. It is the date
that Llama's own templates fall back to."""


class ChatFormat:
    """The chat markup of one tokenizer.

    Args:
        tokenizer: Tokenizer of transformers, with a chat template.
        eos_ids: Further ids that end a turn (from the generation config).
        name: Name of the model, for errors.
        vocabulary: Number of token ids that the model knows; default: those of the tokenizer.
        context: Number of tokens that a text of the model may have; None if it is not known.

    Attributes:
        vocabulary: Number of token ids.
        context: Number of tokens that a text may have.
        fingerprint: Hash of the vocabulary, 16 hex digits; equal fingerprints mean equal ids.
        eos_ids: All ids that end a turn: first the marker that the template writes after an assistant turn
            (`<|eot_id|>`, `<end_of_turn>`), then the tokenizer's EOS and those given.
        eos_text: Text of the marker.
        bos_text: Text of the BOS; "" if the template writes none.
        reply_header: Markup that opens a turn of the assistant, without space around it.

    Raises:
        UserError: No chat template, or no token that ends a turn.
    """

    def __init__(
        self,
        tokenizer: Any,
        eos_ids: Sequence[int] = (),
        name: str = "",
        vocabulary: int = 0,
        context: int | None = None,
    ):
        self.tokenizer, self.context = tokenizer, context
        self.name = name or getattr(tokenizer, "name_or_path", "") or "the tokenizer"
        if not getattr(tokenizer, "chat_template", None):
            raise UserError(
                f"{self.name} has no chat template, so the format of its prompts is not known. "
                "Use an instruction-tuned model, or set tokenizer.chat_template and save the tokenizer."
            )
        self._template = _dated(tokenizer.get_chat_template(), self.name)
        self._rendered = lru_cache(maxsize=_CACHED)(self._render)
        self._written = lru_cache(maxsize=_CACHED)(self._write)
        self._ids_of = lru_cache(maxsize=_CACHED)(self._tokenize)
        ids = tokenizer.get_vocab()
        self.vocabulary = vocabulary or max(ids.values()) + 1
        self.fingerprint = hashlib.sha256(json.dumps(sorted(ids.items())).encode()).hexdigest()[:16]

        added = {token.content: token for token in tokenizer.added_tokens_decoder.values()}
        special = {text for text, token in added.items() if token.special} | set(tokenizer.all_special_tokens)
        markup = {text for text in added if text.strip() and text in str(tokenizer.chat_template)}
        self._special = _any_of(special)
        self._markup = _any_of(special | markup | {_TURN, _OPEN, _CLOSE})

        with _time_limit(self.name):
            opening, closing, glue, between = self._probe()
        marker = self._markup.search(closing)
        end = tokenizer.convert_tokens_to_ids(marker.group()) if marker else tokenizer.eos_token_id
        if end is None:
            raise UserError(f"{self.name} has no end-of-turn token: set tokenizer.eos_token and save the tokenizer.")
        known = [i for i in (end, tokenizer.eos_token_id, *eos_ids) if i is not None and i < len(tokenizer)]
        self._eos = {i: text for i in known if (text := tokenizer.decode([i], skip_special_tokens=False))}
        self.eos_ids: tuple[int, ...] = tuple(self._eos)
        self.eos_text: str = self._eos[end]
        self.bos_text: str = self._find_bos(opening, glue)
        header = commonprefix([between, glue.rpartition("SecondQuestion")[2]]).strip()
        self.reply_header: str = header.removeprefix(self.eos_text).strip()
        written: Part = {"text": opening + glue + self.eos_text, "train": False}
        self.encode([written], where=f"the chat template of {self.name}")

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "ChatFormat":
        """The chat format of a packaged model, model directory or hub name. Raises UserError if it cannot be loaded."""
        path = model_path(str(path))
        with read_by_library(lambda error: UserError(f"no tokenizer can be loaded from {path}: {first_line(error)}")):
            return cls._from_files(path)

    @classmethod
    def _from_files(cls, path: str) -> "ChatFormat":
        from transformers import AutoTokenizer, GenerationConfig

        tokenizer = AutoTokenizer.from_pretrained(path)
        try:
            eos = GenerationConfig.from_pretrained(path).eos_token_id
        except (OSError, ValueError):  # a model directory need not have one
            eos = None
        try:  # models often have a few ids more than their tokenizer
            text = load_config(path).get_text_config()
            vocabulary, context = text.vocab_size, context_length(text)
        except (UserError, AttributeError):  # a folder with a tokenizer alone, or a model of another library
            vocabulary, context = 0, None
        return cls(tokenizer, [eos] if isinstance(eos, int) else list(eos or ()), path, vocabulary, context)

    def prompt(self, messages: Sequence[Mapping[str, Any]], tokenizer: str | None = None) -> list[Part]:
        """What the model sees before its next reply: BOS once, all turns so far, the header of the reply.

        Special-token text in a user's or system's content becomes a `plain` part, which `encode` never turns into that
        token. The rest of a content is tokenised together with the markup around it, as chat templates assume.

        Args:
            messages: Messages {role, content}; those of the assistant also with output (as sampled; default: content),
                token_ids (with the EOS, if one was produced) and finish_reason. One that is `templated` is written as
                the template writes its content, which it may trim.
            tokenizer: Fingerprint of the tokenizer of the token_ids. If it is not this one, they are left out and
                the text is tokenised.
        """
        if not messages or messages[-1]["role"] == "assistant":
            raise ValueError("a prompt ends with a message that is not the assistant's")
        ends = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        parts: list[Part] = []
        for start, end in zip([None, *ends], [*ends, len(messages)], strict=True):
            glue = self._glue(messages[:end])
            if start is not None:
                turn, produced = self._turn(self._as_written(messages, start), tokenizer)
                parts.append(turn)
                glue = self._without_marker(glue) if produced == self.eos_text else glue
            elif self.bos_text:
                parts.append({"text": self.bos_text, "train": False, "bos": True})
                glue = glue.removeprefix(self.bos_text)
            parts += _untrained(glue)
        return parts

    def dialogue(self, messages: Sequence[Mapping[str, Any]], tokenizer: str | None = None) -> list[Part]:
        """The prompt of all messages but the last one, and that one, which is the assistant's, with the EOS that it
        produced. Arguments as in `prompt`."""
        if not messages or messages[-1]["role"] != "assistant":
            raise ValueError("a dialogue ends with a message of the assistant")
        return [*self.prompt(messages[:-1], tokenizer), self._turn(messages[-1], tokenizer)[0]]

    def encode(
        self, parts: Sequence[Part], tokenizer_fingerprint: str | None = None, where: str = "a text"
    ) -> tuple[list[int], list[bool]]:
        """Tokenise each part by itself, adding no special tokens.

        Special-token text becomes the token in untrained parts (it is markup there), never in `plain` parts, and in
        trained parts only as the EOS at their end.

        Args:
            parts: Parts of one text.
            tokenizer_fingerprint: Fingerprint of the tokenizer of the parts' token_ids, which are used only if it is
                this one.
            where: Place of the text, for errors.

        Returns:
            Token ids [S], and for each whether it is trained [S].

        Raises:
            UserError: a token id that the model does not have, or a text with half of a surrogate pair.
        """
        ids: list[int] = []
        train: list[bool] = []
        same = tokenizer_fingerprint == self.fingerprint
        for part in parts:
            sampled: Sequence[int] | None = part.get("token_ids") if same else None
            stored = sampled is not None
            if sampled is None:
                check_characters(part["text"], where)
                sampled = self._ids_of(part["text"], part["train"], part.get("plain", False))
            if wrong := [token for token in sampled if not 0 <= token < self.vocabulary]:
                reason = "Was the file edited? Without 'tokenizer' in its row, a text is tokenised again."
                if not stored:
                    text = self.tokenizer.convert_ids_to_tokens(wrong[0])
                    reason = f"Its tokenizer has a token for it, {text!r}: add a row to the embedding of the model "
                    reason += "(resize_token_embeddings), or take the tokenizer that the model was trained with."
                raise UserError(
                    f"{where}: the token id {wrong[0]} is outside of the vocabulary of {self.name}, whose ids are "
                    f"below {self.vocabulary}. {reason}"
                )
            ids += sampled
            train += [part["train"]] * len(sampled)
        return ids, train

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without an EOS at the end."""
        ids = list(ids)
        if ids and ids[-1] in self.eos_ids:
            ids.pop()
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _turn(self, message: Mapping[str, Any], tokenizer: str | None) -> tuple[Part, str]:
        """An assistant turn as a trained part, and the text of its EOS ("" if it was cut)."""
        text = message["content"] if message.get("output") is None else message["output"]
        ids = message.get("token_ids")
        if ids is not None and tokenizer in (None, self.fingerprint):
            produced = self._eos.get(ids[-1], "") if ids else ""
            text = text.removesuffix(produced) + produced
            return {"text": text, "train": True, "token_ids": list(ids)}, produced
        ending = next((eos for eos in self._eos.values() if text.endswith(eos)), "")
        if message.get("finish_reason") in (None, "stop"):
            produced = ending or self.eos_text
            return {"text": text.removesuffix(ending) + produced, "train": True}, produced
        cut: Part = {"text": text, "train": True}
        if ending:
            cut["plain"] = True
        return cut, ""

    def _as_written(self, messages: Sequence[Mapping[str, Any]], place: int) -> Mapping[str, Any]:
        """The assistant's message at `place`, with the content that the template writes of it if it is `templated`."""
        message = messages[place]
        if not message.get("templated"):
            return message
        written = self._written(tuple((m["role"], m["content"]) for m in messages[: place + 2]), place)
        return message if written == message["content"] else {"role": "assistant", "content": written}

    def _write(self, messages: tuple[tuple[str, str], ...], place: int) -> str:
        rows = [
            {"role": role, "content": _TURN if role == "assistant" else self._markup.sub(_fence, content)}
            for role, content in messages
        ]
        pieces = self._apply(rows, add_generation_prompt=True).split(_TURN)
        number = sum(role == "assistant" for role, _ in messages[:place])
        before, after = (_TURN.join(some) for some in (pieces[: number + 1], pieces[number + 1 :]))
        content = messages[place][1]
        rows[place]["content"] = content
        whole = self._apply(rows, add_generation_prompt=True)
        fits = whole.startswith(before) and whole.endswith(after) and len(whole) >= len(before) + len(after)
        return whole[len(before) : len(whole) - len(after)] if fits else content

    def _glue(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The markup from the end of the assistant's last turn (or from the start) to the next reply."""
        return self._rendered(tuple((m["role"], None if m["role"] == "assistant" else m["content"]) for m in messages))

    def _render(self, messages: tuple[tuple[str, str | None], ...]) -> str:
        rows = [
            {"role": role, "content": _TURN if content is None else self._markup.sub(_fence, content)}
            for role, content in messages
        ]
        pieces = self._apply(rows, add_generation_prompt=True).split(_TURN)
        if len(pieces) != 1 + sum(content is None for _, content in messages):
            raise UserError(
                f"the chat template of {self.name} does not write each assistant turn once, which is needed."
            )
        return pieces[-1]

    def _apply(self, rows: list[dict], add_generation_prompt: bool) -> str:
        from jinja2 import TemplateError

        try:
            return self.tokenizer.apply_chat_template(
                rows, chat_template=self._template, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except TemplateError as error:
            roles = ", ".join(row["role"] for row in rows)
            raise UserError(
                f"the chat template of {self.name} refuses messages of {roles}: {error}. Many templates "
                "have no system role and want user and assistant in turn: put such text into a user message."
            ) from error

    def _probe(self) -> tuple[str, str, str, str]:
        """What the template writes before the first user text, after the last reply, before a second reply (all of
        it), and between the first user text and the first reply."""
        rows = [
            {"role": "user", "content": "FirstQuestion"},
            {"role": "assistant", "content": "FirstReply"},
            {"role": "user", "content": "SecondQuestion"},
            {"role": "assistant", "content": "SecondReply"},
        ]
        whole = self._apply(rows, add_generation_prompt=False)
        glue = self._apply(rows[:3], add_generation_prompt=True)
        opening, _, rest = whole.partition("FirstQuestion")
        return opening, whole.rpartition("SecondReply")[2], glue, rest.partition("FirstReply")[0]

    def _find_bos(self, opening: str, glue: str) -> str:
        """The BOS as the template writes it. In ChatML the tokenizer's BOS can be a turn marker, which is none."""
        bos = self.tokenizer.bos_token
        if not bos or not opening.startswith(bos):
            return ""
        its_own = self.tokenizer("a")["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return bos if its_own or glue.count(bos) == 1 else ""

    def _without_marker(self, glue: str) -> str:
        """The glue after a turn for which the model produced the marker, without it and space before it (` </s>`)."""
        bare = glue.lstrip()
        return bare.removeprefix(self.eos_text) if bare.startswith(self.eos_text) else glue

    def _tokenize(self, text: str, train: bool, plain: bool) -> tuple[int, ...]:
        if plain:
            return self._broken(text, self._markup)
        if not train:
            return self._raw(text)
        for eos_id, eos in self._eos.items():
            if text.endswith(eos):
                return (*self._broken(text.removesuffix(eos), self._special), eos_id)
        return self._broken(text, self._special)

    def _broken(self, text: str, tokens: re.Pattern[str]) -> tuple[int, ...]:
        """The ids of text in which no special token arises: text that spells one is tokenised in two pieces."""
        ids: tuple[int, ...] = ()
        start = 0
        while match := tokens.search(text, start):
            ids += self._raw(text[start : match.start() + 1])
            start = match.start() + 1
        return ids + self._raw(text[start:])

    def _raw(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False)) if text else ()


def check_characters(text: str, where: str) -> None:
    """Raise UserError naming `where` for a text with half of a surrogate pair, which no tokenizer reads."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: character {error.start} of a text is {text[error.start]!r}, half of a surrogate pair, which is "
            "no character. Replace it in the file (\\ufffd stands for a character that is lost), or remove the row."
        ) from error


def parts_text(parts: Sequence[Part]) -> str:
    """The text of all parts together."""
    return "".join(part["text"] for part in parts)


def _dated(template: str, name: str) -> str:
    """The chat template with TEMPLATE_DATE in place of its calls for the time. Raises UserError if one is computed."""
    dated = _TODAY.sub(lambda call: repr(TEMPLATE_DATE.strftime(call[1] or call[2] or "")), template)
    if "strftime_now(" in dated:
        raise UserError(
            f"the chat template of {name} computes the format of today's date, so its prompts would change from day to "
            "day. Write the format as text: strftime_now('%d %b %Y')."
        )
    return dated


@contextlib.contextmanager
def _time_limit(name: str) -> Iterator[None]:
    """Raise UserError naming the model if its chat template, run inside, takes longer than TEMPLATE_SECONDS.

    Templates are compiled to Python, whose lines are traced: this works in every thread and interrupts a loop.
    """
    end = time.monotonic() + TEMPLATE_SECONDS

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if time.monotonic() > end:
            raise UserError(f"the chat template of {name} took longer than {TEMPLATE_SECONDS} s for four messages.")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True) if text) or r"(?!)")


def _fence(match: re.Match[str]) -> str:
    return _OPEN + match.group().encode().hex() + _CLOSE


def _untrained(glue: str) -> list[Part]:
    """Glue as parts. Fenced text, which spells a special token, becomes a plain part."""
    pieces = _FENCED.split(glue)
    parts: list[Part] = []
    for i, piece in enumerate(pieces):
        if i % 2:
            parts.append({"text": bytes.fromhex(piece).decode(), "train": False, "plain": True})
        elif piece:
            parts.append({"text": piece, "train": False})
    return parts
