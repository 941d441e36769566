"""Messages -> parts -> token ids, with the agent's own tokens marked. No other module knows chat templates.

A prompt consists of the agent's turns and of the text that the template writes between them. Two rules:

- A dialogue that is text is rendered once by the template and tokenised once. A second rendering with placeholders for
  the replies gives their places. A token that has a character of a reply is the agent's.
- A dialogue that was sampled here has token ids. They follow the prompt that was sampled from unchanged, whatever the
  template would make of them, and then come the ids of what the template writes between that turn and the next prompt.
  Therefore the tokens of each prompt are a prefix of the next prompt, and of the dialogue that training sees.

An EOS is trained only if the model produced it. After a reply that was cut, the EOS belongs to the template's text.
Text of a user, or of a reply without ids, that spells a special token is broken by a zero-width space.
`ChatFormat` compares its ids with those of the template's own text when it is made.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

from sweet_rl.models.thinking import without_thinking
from sweet_rl.models.weights import context_length, load_config, model_path
from sweet_rl.runs.errors import UserError, first_line, read_by_library
from sweet_rl.runs.records import Part, TurnCandidates

TEMPLATE_DATE = date(2024, 7, 26)
"""What chat templates get for today's date (Llama 3.2, 3.3), so that a prompt is the same on every day. It is the date
that Llama's own templates fall back to."""
_TURN = "\ue0f0reply\ue0f0"  # placeholder in the rendered text
_BREAK = "\u200b"
_TODAY = re.compile(r"""\bstrftime_now\(\s*(["'])([^"']*)\1\s*\)""")
_PROBE = (
    {"role": "user", "content": "Which days?\nMonday, or 2 others?"},
    {"role": "assistant", "content": "Either: x = 1\n\n    y = 2."},
    {"role": "user", "content": "Then Tuesday. "},
)
Messages = Sequence[Mapping[str, Any]]


class ChatFormat:
    """The chat markup of one tokenizer.

    Args:
        tokenizer: Fast tokenizer of transformers, with a chat template.
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
        lead: White space that the template writes between the header and a reply.

    Raises:
        UserError: No chat template, no token that ends a turn, or a template that changes replies, or whose own token
            ids between two turns are not those that would be trained.
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
        if not tokenizer.is_fast:
            raise UserError(f"{self.name} has no fast tokenizer (tokenizer.json), which gives the places of tokens.")
        self._template = _dated(tokenizer.get_chat_template(), self.name)
        self._markup_between = lru_cache(maxsize=4096)(self._render_markup)
        self._tokenized = lru_cache(maxsize=512)(self._tokenize)
        ids = tokenizer.get_vocab()
        self.vocabulary = vocabulary or max(ids.values()) + 1
        self.fingerprint = hashlib.sha256(json.dumps(sorted(ids.items())).encode()).hexdigest()[:16]

        added = {token.content: token for token in tokenizer.added_tokens_decoder.values()}
        special = {text for text, token in added.items() if token.special} | set(tokenizer.all_special_tokens)
        markup = {text for text in added if text.strip() and text in str(tokenizer.chat_template)}
        self._special = _any_of(special)
        self._markup = _any_of(special | markup | {_TURN})
        self._read_template(eos_ids)
        self._check()

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "ChatFormat":
        """The chat format of a packaged model, model directory or hub name. Raises UserError if it cannot be loaded."""
        path = model_path(str(path))
        with read_by_library(lambda error: UserError(f"no tokenizer can be loaded from {path}: {first_line(error)}")):
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

    def prompt(self, messages: Messages, tokenizer: str | None = None) -> list[Part]:
        """What the model sees before its next reply: BOS once, all turns so far, the header of the reply.

        Args:
            messages: Messages {role, content}; those of the assistant also with output (as sampled; default: content),
                token_ids (with the EOS, if one was produced) and finish_reason.
            tokenizer: Fingerprint of the tokenizer of the token_ids. If it is not this one, they are left out.
        """
        if not messages or messages[-1]["role"] == "assistant":
            raise ValueError("a prompt ends with a message that is not the assistant's")
        return self._parts(messages, tokenizer)

    def dialogue(self, messages: Messages, tokenizer: str | None = None) -> list[Part]:
        """What training sees of messages that end with a turn of the assistant. That turn ends with an EOS only if the
        model produced one. Arguments as in `prompt`."""
        if not messages or messages[-1]["role"] != "assistant":
            raise ValueError("a dialogue ends with a message of the assistant")
        return self._parts(messages, tokenizer)

    def encode(
        self, parts: Sequence[Part], tokenizer_fingerprint: str | None = None, where: str = "a text"
    ) -> tuple[list[int], list[bool]]:
        """Tokenise the text between parts with token ids as a whole, adding no special tokens.

        A token is trained if one of its characters is in a trained part. Special-token text becomes the token in
        untrained parts (it is markup there), never in `plain` parts, and in the agent's turns only as the EOS at their
        end. The parts' token_ids are used only if `tokenizer_fingerprint` is that of this tokenizer.

        Returns:
            Token ids [S], and for each whether it is trained [S].

        Raises:
            UserError: a token id that the model does not have.
        """
        ids: list[int] = []
        train: list[bool] = []
        texts: list[tuple[str, bool]] = []  # (text, trained) behind `before`, not tokenised yet
        before = ""

        def add_texts() -> None:
            new, places = self._tokenized(before, "".join(text for text, _ in texts))
            spans, end = [], 0
            for text, trained in texts:
                end += len(text)
                if trained:
                    spans.append((end - len(text), end))
            ids.extend(new)
            if spans:
                train.extend([any(a < last and b > first for first, last in spans) for a, b in places])
            else:
                train.extend([False] * len(new))
            texts.clear()

        for part in parts:
            sampled = part.get("token_ids") if tokenizer_fingerprint == self.fingerprint else None
            if sampled is None:
                texts.append((self._safe(part, texts[-1][0] if texts else before), part["train"]))
            elif sampled:
                add_texts()
                ids.extend(sampled)
                train.extend([part["train"]] * len(sampled))
                before = self._eos.get(sampled[-1], part["text"][-1:])
        add_texts()
        if ids and not 0 <= min(ids) <= max(ids) < self.vocabulary:
            wrong = next(token for token in ids if not 0 <= token < self.vocabulary)
            raise UserError(
                f"{where}: the token id {wrong} is outside of the vocabulary of {self.name}, whose ids are below "
                f"{self.vocabulary}. If the file was edited, remove 'tokenizer' from its row: its text is tokenised "
                "again. If the tokenizer has more tokens than the model, call resize_token_embeddings."
            )
        return ids, train

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without an EOS at the end and white space that the template puts around a reply."""
        ids = list(ids)
        ended = bool(ids) and ids[-1] in self.eos_ids
        text = self.tokenizer.decode(
            ids[:-1] if ended else ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text.removeprefix(self.lead).removesuffix(self._tail if ended else "")

    def check_vocabulary(self, other: str, flag: str) -> None:
        """Check that another model, named by a flag, can compute log-probs of the token ids of this one.

        Raises UserError if it has no tokenizer, its tokenizer has other ids, or its embedding is too small.
        """
        from transformers import AutoTokenizer

        with read_by_library(lambda error: UserError(f"{flag} {other} has no tokenizer: {first_line(error)}")):
            ids = AutoTokenizer.from_pretrained(model_path(other)).get_vocab()
        rows = load_config(other).get_text_config().vocab_size
        if ids != self.tokenizer.get_vocab() or rows <= max(ids.values()):
            raise UserError(
                f"{flag} {other} has another vocabulary than {self.name}, or an embedding of fewer tokens ({rows}), so "
                "its log-probs of these token ids would mean nothing. Give a model with the same tokenizer."
            )

    def _safe(self, part: Part, before: str) -> str:
        """The text of a part as it is tokenised behind the text `before`."""
        text = part["text"]
        if part.get("plain"):
            return _broken(text, self._markup)
        if not (part["train"] or part.get("turn")):
            return text
        if before.endswith(self.reply_header) and not text.startswith(self.lead):
            text = self.lead + text
        end = self._end_of(text)
        return _broken(text.removesuffix(end), self._special) + end

    def _end_of(self, text: str) -> str:
        return next((eos for eos in self._eos.values() if text.endswith(eos)), "")

    def _parts(self, messages: Messages, tokenizer: str | None) -> list[Part]:
        same = tokenizer in (None, self.fingerprint)
        if same and any(message.get("token_ids") is not None for message in messages):
            return self._sampled(messages)
        return self._written(messages)

    def _written(self, messages: Messages) -> list[Part]:
        """The parts of a dialogue that is text, as the template writes it."""
        prompt = messages[-1]["role"] != "assistant"
        turns = [message for message in messages if message["role"] == "assistant"]
        replies = [_broken(self._reply(message), self._markup) for message in turns]
        contents = iter(replies)
        rows = [(m["role"], next(contents) if m["role"] == "assistant" else m["content"]) for m in messages]
        text, (opening, *behind) = self._apply(rows, prompt), self._markup_between(_with_placeholders(messages), prompt)
        if not text.startswith(opening):
            raise self._changes(text, opening)
        parts, place = self._beginning(opening), len(opening)
        for number, (message, reply, after) in enumerate(zip(turns, replies, behind, strict=True), 1):
            forms = (reply, reply.strip(), reply.rstrip(), reply.lstrip())
            shown = next((form for form in forms if text.startswith(form + after, place)), None)
            if shown is None:
                raise self._changes(text[place:], reply + after)
            place += len(shown) + len(after)
            before = parts[-1]["text"]
            if self.lead and before.endswith(self.lead):  # no part of the prompt: the model samples it
                parts[-1] = {**parts[-1], "text": before.removesuffix(self.lead)}
                shown = self.lead + shown
            last, marker = number == len(turns) and not prompt, ""
            if _finished(message):
                ended = self._end.match(after)
                marker = ended[0] if ended else self.eos_text if last else ""
            parts.append({"text": shown + marker, "train": True})
            if not last:
                parts.append({"text": after.removeprefix(marker), "train": False})
        return parts

    def _sampled(self, messages: Messages) -> list[Part]:
        """The parts of a dialogue of which some turns have token ids: each turn follows the prompt before it."""
        parts: list[Part] = []
        produced = ""
        prompt = messages[-1]["role"] != "assistant"
        turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        for place in [*turns, len(messages)] if prompt else turns:
            markup = self._markup_between(_with_placeholders(messages[:place]), True)[-1]
            ended = self._end.match(markup)
            if produced and ended and ended[0].endswith(produced):
                markup = markup[ended.end() :]
            parts += [{"text": markup, "train": False}] if parts else self._beginning(markup)
            if place < len(messages):
                part, produced = self._turn(messages, place)
                parts.append(part)
        return parts

    def _turn(self, messages: Messages, place: int) -> tuple[Part, str]:
        """A turn behind the prompt before it, and the marker with which the model ended it; "" if a limit cut it."""
        message = messages[place]
        if message.get("templated"):
            written = self._written(messages[: place + 1])[-1]
            if not written["text"].removeprefix(self.lead).startswith(self._reply(message)):
                return written, self._end_of(written["text"])
        ids = message.get("token_ids")
        if ids is not None:
            end = self._eos.get(ids[-1], "") if ids else ""
            text = message["content"] if message.get("output") is None else message["output"]
            return {"text": text.removesuffix(end) + end, "train": True, "token_ids": list(ids)}, end
        end = self.eos_text if _finished(message) else ""
        return {"text": self._reply(message) + (self._tail + end if end else ""), "train": True}, end

    def _reply(self, message: Mapping[str, Any]) -> str:
        """The text of a reply without ids: without the marker that ended it, and without reasoning."""
        text = message["content"]
        if message.get("finish_reason") and message.get("output") is not None and not message.get("templated"):
            text = message["output"]  # without finish_reason (released files) it may end with another family's marker
        if without_thinking(text) != text:
            text = message["content"]
        if without_thinking(text) != text:
            raise UserError(
                f"a reply without token ids has a reasoning ({text[:60]!r}...), which chat templates rewrite: leave it "
                "out of the content, or sample the dialogue with the model's tokenizer, which keeps token ids."
            )
        return text.removesuffix(self._end_of(text))

    def _beginning(self, markup: str) -> list[Part]:
        if not self.bos_text:
            return [{"text": markup, "train": False}]
        rest: Part = {"text": markup.removeprefix(self.bos_text), "train": False}
        return [{"text": self.bos_text, "train": False, "bos": True}, rest]

    def _changes(self, text: str, expected: str) -> UserError:
        return UserError(
            f"the chat template of {self.name} changes a reply: it writes {text[:200]!r} and not {expected[:200]!r}. "
            "So it is not known which tokens are the agent's. Sample the dialogues with the model's tokenizer, which "
            "keeps token ids, or change the template so that it writes a reply as it is."
        )

    def _render_markup(self, rows: tuple[tuple[str, str], ...], prompt: bool) -> list[str]:
        """The text before, between and after the assistant's turns, whose texts are _TURN."""
        pieces = self._apply(rows, prompt).split(_TURN)
        if len(pieces) != 1 + sum(role == "assistant" for role, _ in rows):
            raise UserError(
                f"the chat template of {self.name} does not write each assistant turn once, which is needed."
            )
        return pieces

    def _apply(self, rows: Iterable[tuple[str, str]], prompt: bool) -> str:
        """The text that the template writes; what a user writes cannot be markup."""
        from jinja2 import TemplateError

        messages = [
            {"role": role, "content": text if role == "assistant" else _broken(text, self._markup)}
            for role, text in rows
        ]
        try:
            return self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=prompt, chat_template=self._template
            )
        except TemplateError as error:
            roles = ", ".join(row["role"] for row in messages)
            raise UserError(
                f"the chat template of {self.name} refuses messages of {roles}: {error}. Many templates "
                "have no system role and want user and assistant in turn: put such text into a user message."
            ) from error

    def _read_template(self, eos_ids: Sequence[int]) -> None:
        """Find the markup of a turn in what the template writes around two questions and two replies."""
        tokenizer = self.tokenizer
        rows = [("user", "Question1"), ("assistant", "Reply1"), ("user", "Question2"), ("assistant", "Reply2")]
        whole, first, second = self._apply(rows, False), self._apply(rows[:1], True), self._apply(rows[:3], True)
        opening, _, rest = whole.partition("Question1")
        before, after = rest.partition("Reply1")[0], whole.rpartition("Reply2")[2]

        marker = self._markup.search(after)
        end = tokenizer.convert_tokens_to_ids(marker[0]) if marker else tokenizer.eos_token_id
        if end is None:
            raise UserError(f"{self.name} has no end-of-turn token: set tokenizer.eos_token and save the tokenizer.")
        known = [i for i in (end, tokenizer.eos_token_id, *eos_ids) if i is not None and i < len(tokenizer)]
        self._eos = {i: text for i in known if (text := tokenizer.decode([i], skip_special_tokens=False))}
        self.eos_ids: tuple[int, ...] = tuple(self._eos)
        self.eos_text: str = self._eos[end]
        self._tail = after.partition(self.eos_text)[0] if marker else ""
        self._end = re.compile(rf"(?:\s*|{re.escape(self._tail)})(?:{_any_of(self._eos.values()).pattern})")

        bos = tokenizer.bos_token
        # In ChatML the tokenizer's BOS can be a turn marker, which is no BOS.
        is_bos = bool(bos) and (tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id] or second.count(bos) == 1)
        self.bos_text: str = bos if is_bos and opening.startswith(bos) else ""
        header = commonprefix([before, second.rpartition("Question2")[2]]).strip()
        self.reply_header: str = header.removeprefix(self.eos_text).strip()
        prompt = first.rpartition("Question1")[2]
        lead = before.removeprefix(prompt)
        self.lead: str = lead if before.startswith(prompt) and not lead.strip() else ""

    def _check(self) -> None:
        """Compare the ids of a dialogue, as text and behind sampled ids, with those that the template itself gives."""
        where = f"the chat template of {self.name}"
        rows = [(message["role"], message["content"]) for message in _PROBE]
        expected, _ = self._tokenize("", self._apply(rows, True))
        written, _ = self.encode(self._written(_PROBE), where=where)
        parts = self._sampled([_PROBE[0], {**_PROBE[1], "token_ids": [self.eos_ids[0]]}, _PROBE[2]])
        before, _ = self.encode(parts[:-1], self.fingerprint, where)
        between = self.encode(parts, self.fingerprint, where)[0][len(before) :]
        for ids in (written, between):
            if expected[-len(ids) :] != ids:
                texts = [self.tokenizer.convert_ids_to_tokens(some) for some in (expected[-len(ids) :], ids)]
                raise UserError(
                    f"{where} and what would be trained differ. The template: {texts[0]}. Here: {texts[1]}. Change the "
                    "template so that it writes a message alike in every dialogue."
                )

    def _tokenize(self, before: str, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text that continues `before`, and where each token starts and ends in it."""
        # Tokenise behind a head that shares no token with the text: many tokenizers put a space at a text's beginning.
        for head in (before, ".", "\n", "a", ""):
            head_ids = self.tokenizer(head, add_special_tokens=False)["input_ids"]
            whole = self.tokenizer(head + text, add_special_tokens=False, return_offsets_mapping=True)
            if whole["input_ids"][: len(head_ids)] == head_ids:
                break
        # Some special tokens take the white space beside them, which can belong to another part.
        found = ((self._special.search(head + text, *place), place) for place in whole["offset_mapping"])
        places = [place if special is None else special.span() for special, place in found][len(head_ids) :]
        behind = [(max(0, first - len(head)), max(0, last - len(head))) for first, last in places]
        return whole["input_ids"][len(head_ids) :], behind


def parts_text(parts: Sequence[Part]) -> str:
    """The text of all parts together."""
    return "".join(part["text"] for part in parts)


def spoken_candidates(record: TurnCandidates) -> list[str]:
    """What others see of each candidate: without its reasoning; empty if a limit cut the reasoning."""
    prompt = record.input if isinstance(record.input, str) else parts_text(record.input)
    reasons = record.additional_finish_reasons or ["stop"] * len(record.additional_outputs)
    pairs = zip(record.additional_outputs, reasons, strict=True)
    return [without_thinking(text, prompt, reason == "stop") for text, reason in pairs]


def _finished(message: Mapping[str, Any]) -> bool:
    return message.get("finish_reason") in (None, "stop")


def _with_placeholders(messages: Messages) -> tuple[tuple[str, str], ...]:
    return tuple((m["role"], _TURN if m["role"] == "assistant" else m["content"]) for m in messages)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True) if text) or r"(?!)")


def _broken(text: str, pattern: re.Pattern[str]) -> str:
    """The text with a zero-width space behind the first character of what the pattern matches."""
    return pattern.sub(lambda match: match.group()[0] + _BREAK + match.group()[1:], text)


def _dated(template: str, name: str) -> str:
    """The chat template with TEMPLATE_DATE in place of its calls for the time. Raises UserError if one is computed."""
    dated = _TODAY.sub(lambda call: repr(TEMPLATE_DATE.strftime(call[2])), template)
    if "strftime_now(" in dated:
        raise UserError(
            f"the chat template of {name} computes the format of today's date, so its prompts would change from day to "
            "day. Write the format as text: strftime_now('%d %b %Y')."
        )
    return dated
