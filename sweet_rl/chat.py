"""Messages -> parts -> token ids, with the agent's own tokens marked. Nothing else knows chat templates.

The prompt of a dialogue is built from what the template writes around the agent's turns ("glue"), found by
rendering it with a placeholder where each turn stands; the turn itself is what was sampled, whatever the
template would make of it (trim it, drop its reasoning). So the prompt of every turn is the beginning of the
prompt of the next one, and of the dialogue that training sees, token for token.

An EOS is trained exactly where the model produced one; after a reply that was cut it is part of the glue.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.records import Part

# Placeholders in the rendered text: an assistant turn, and the fence around special-token text of a content.
# Where a content holds these very characters they are fenced as well.
_TURN, _OPEN, _CLOSE = "\ue0f0", "\ue0f1", "\ue0f2"
_FENCED = re.compile(f"{_OPEN}([0-9a-f]+){_CLOSE}")
_CACHED = 16384


class ChatFormat:
    """The chat markup of one tokenizer.

    Attributes: tokenizer; fingerprint (16 hex of its vocabulary: equal fingerprints mean equal ids); eos_ids
    (every id that ends a turn, the template's own marker first); eos_text (that marker's text); bos_text (""
    where the template writes none).

    The marker is what the template puts after an assistant turn (`<|eot_id|>`, `<end_of_turn>`); the
    tokenizer's EOS and those of the generation config end a turn as well. Raises UserError without a chat
    template.
    """

    def __init__(self, tokenizer: Any, eos_ids: Sequence[int] = (), name: str = ""):
        self.tokenizer = tokenizer
        self.name = name or getattr(tokenizer, "name_or_path", "") or "the tokenizer"
        if not getattr(tokenizer, "chat_template", None):
            raise UserError(
                f"{self.name} has no chat template, so there is no telling how it is spoken to. "
                "Use an instruction-tuned model, or set tokenizer.chat_template and save the tokenizer."
            )
        self._rendered = lru_cache(maxsize=_CACHED)(self._render)
        self._ids_of = lru_cache(maxsize=_CACHED)(self._tokenize)
        vocabulary = tokenizer.get_vocab()
        self.fingerprint = hashlib.sha256(json.dumps(sorted(vocabulary.items())).encode()).hexdigest()[:16]

        added = {token.content: token for token in tokenizer.added_tokens_decoder.values()}
        special = {text for text, token in added.items() if token.special} | set(tokenizer.all_special_tokens)
        markup = {text for text in added if text.strip() and text in str(tokenizer.chat_template)}
        self._special = _any_of(special)
        self._markup = _any_of(special | markup | {_TURN, _OPEN, _CLOSE})

        opening, closing, glue = self._probe()
        marker = self._markup.search(closing)
        end = tokenizer.convert_tokens_to_ids(marker.group()) if marker else tokenizer.eos_token_id
        if end is None:
            raise UserError(
                f"{self.name} has no end-of-turn token: set tokenizer.eos_token and save the tokenizer."
            )
        known = [i for i in (end, tokenizer.eos_token_id, *eos_ids) if i is not None and i < len(tokenizer)]
        self._eos = {i: text for i in known if (text := tokenizer.decode([i], skip_special_tokens=False))}
        self.eos_ids: tuple[int, ...] = tuple(self._eos)
        self.eos_text: str = self._eos[end]
        self.bos_text: str = self._find_bos(opening, glue)

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "ChatFormat":
        """The chat format of a model directory or hub name. Raises UserError where it cannot be had."""
        from transformers import AutoTokenizer, GenerationConfig

        try:
            tokenizer = AutoTokenizer.from_pretrained(str(path))
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"no tokenizer can be loaded from {path}: {error}") from error
        try:
            eos = GenerationConfig.from_pretrained(str(path)).eos_token_id
        except (OSError, ValueError):  # a model directory need not have one
            eos = None
        return cls(tokenizer, eos_ids=[eos] if isinstance(eos, int) else list(eos or ()), name=str(path))

    def prompt(self, messages: Sequence[dict], tokenizer: str | None = None) -> list[Part]:
        """What the model sees before its next reply: BOS once, all turns so far, the header of the reply.

        messages: dicts of role, content; assistant ones with output (as sampled; else content is taken),
        token_ids (with the EOS, if one was produced), finish_reason. `tokenizer` is the fingerprint of the
        tokenizer that the token_ids belong to: if it is another one's, they are left out and the text is
        tokenised.

        Special-token text in a user's or system's content becomes a `plain` part of its own, which `encode`
        never turns into that token; the rest is tokenised together with the markup, as the template's authors
        did.
        """
        if not messages or messages[-1]["role"] == "assistant":
            raise ValueError("a prompt ends with a message that is not the assistant's")
        ends = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        parts: list[Part] = []
        for start, end in zip([None, *ends], [*ends, len(messages)], strict=True):
            glue = self._glue(messages[:end])
            if start is not None:
                turn, produced = self._turn(messages[start], tokenizer)
                parts.append(turn)
                glue = self._without_marker(glue) if produced == self.eos_text else glue
            elif self.bos_text:
                parts.append({"text": self.bos_text, "train": False, "bos": True})
                glue = glue.removeprefix(self.bos_text)
            parts += _untrained(glue)
        return parts

    def dialogue(self, messages: Sequence[dict], tokenizer: str | None = None) -> list[Part]:
        """`prompt` of all but the last message, and the assistant turn that is the last one. Nothing comes
        after it but, if one was produced, its EOS."""
        if not messages or messages[-1]["role"] != "assistant":
            raise ValueError("a dialogue ends with a message of the assistant")
        return [*self.prompt(messages[:-1], tokenizer), self._turn(messages[-1], tokenizer)[0]]

    def encode(
        self, parts: Sequence[Part], tokenizer_fingerprint: str | None = None
    ) -> tuple[list[int], list[bool]]:
        """Token ids and, of the same length, which of them are trained.

        Each part is tokenised by itself, without special tokens of the tokenizer's own adding. A part's
        token_ids are used as they are when `tokenizer_fingerprint`, the one they were made with, is this
        tokenizer's. In untrained parts special-token text is markup and becomes the token; in `plain` ones it
        stays text; in trained ones it stays text but for the EOS at the end.
        """
        ids: list[int] = []
        train: list[bool] = []
        same = tokenizer_fingerprint == self.fingerprint
        for part in parts:
            sampled = part.get("token_ids") if same else None
            if sampled is None:
                sampled = self._ids_of(part["text"], part["train"], part.get("plain", False))
            ids += sampled
            train += [part["train"]] * len(sampled)
        return ids, train

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without the EOS at its end if there is one."""
        ids = list(ids)
        if ids and ids[-1] in self.eos_ids:
            ids.pop()
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _turn(self, message: dict, tokenizer: str | None) -> tuple[Part, str]:
        """An assistant turn as a trained part, and the text of the EOS it ends with ("" if it was cut)."""
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
        return {"text": text, "train": True} | ({"plain": True} if ending else {}), ""

    def _glue(self, messages: Sequence[dict]) -> str:
        """The markup up to the next reply: from the end of the assistant's last turn, else from the start."""
        return self._rendered(
            tuple((m["role"], None if m["role"] == "assistant" else m["content"]) for m in messages)
        )

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
                rows, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except TemplateError as error:
            roles = ", ".join(row["role"] for row in rows)
            raise UserError(
                f"the chat template of {self.name} refuses messages of {roles}: {error}. Many templates "
                "have no system role and want user and assistant in turn: put such text into a user message."
            ) from error

    def _probe(self) -> tuple[str, str, str]:
        """What is written before the first user text, after the last reply, and before a second reply."""
        rows = [
            {"role": "user", "content": "FirstQuestion"},
            {"role": "assistant", "content": "FirstReply"},
            {"role": "user", "content": "SecondQuestion"},
            {"role": "assistant", "content": "SecondReply"},
        ]
        whole = self._apply(rows, add_generation_prompt=False)
        glue = self._apply(rows[:3], add_generation_prompt=True)
        return whole.partition("FirstQuestion")[0], whole.rpartition("SecondReply")[2], glue

    def _find_bos(self, opening: str, glue: str) -> str:
        """The BOS as the template writes it; not a turn marker that a ChatML model also names BOS."""
        bos = self.tokenizer.bos_token
        if not bos or not opening.startswith(bos):
            return ""
        its_own = self.tokenizer("a")["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return bos if its_own or glue.count(bos) == 1 else ""

    def _without_marker(self, glue: str) -> str:
        """The glue after a turn whose marker the model produced (of ` </s>` the space goes too)."""
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
        """The ids of text without special tokens: each one that it spells is tokenised in two pieces."""
        ids: tuple[int, ...] = ()
        start = 0
        while match := tokens.search(text, start):
            ids += self._raw(text[start : match.start() + 1])
            start = match.start() + 1
        return ids + self._raw(text[start:])

    def _raw(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False)) if text else ()


def parts_from_text(text: str, response_template: str, eos_text: str, bos_text: str = "") -> list[Part]:
    """The parts of a chat-formatted string (released files): what follows `response_template` is trained.

    A trained part reaches up to and including the next `eos_text`, or to the end of the text, without an EOS
    of our own adding. Line breaks right after the template belong to the header. `bos_text` at the start is
    kept once. What a string cannot tell: a turn that was cut, if another follows, and markup that a user
    typed.

    Raises UserError if `response_template` is not in the text.
    """
    if response_template not in text:
        raise UserError(
            f"the text {text[:60]!r}... has no {response_template!r}, so what the agent said is not known. "
            "Give --response_template the markup before the agent's replies, as this file writes it."
        )
    parts: list[Part] = []
    if bos_text and text.startswith(bos_text):
        parts.append({"text": bos_text, "train": False, "bos": True})
        while text.startswith(bos_text):
            text = text.removeprefix(bos_text)
    while text:
        before, header, rest = text.partition(response_template)
        reply = rest.lstrip("\r\n")
        header += rest[: len(rest) - len(reply)]
        parts.append({"text": before + header, "train": False})
        said, eos, text = reply.partition(eos_text)
        if header and said + eos:
            parts.append({"text": said + eos, "train": True})
    return parts


def parts_text(parts: Sequence[Part]) -> str:
    """The text that the parts are the parts of."""
    return "".join(part["text"] for part in parts)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile(
        "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True) if text) or r"(?!)"
    )


def _fence(match: re.Match[str]) -> str:
    return _OPEN + match.group().encode().hex() + _CLOSE


def _untrained(glue: str) -> list[Part]:
    """Glue as parts; fenced content, which spells a special token, becomes a plain part of its own."""
    pieces = _FENCED.split(glue)
    parts: list[Part] = []
    for i, piece in enumerate(pieces):
        if i % 2:
            parts.append({"text": bytes.fromhex(piece).decode(), "train": False, "plain": True})
        elif piece:
            parts.append({"text": piece, "train": False})
    return parts
