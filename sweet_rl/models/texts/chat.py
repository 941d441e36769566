"""Messages -> parts -> token ids, with the agent's own tokens marked. No other module knows chat templates.

A prompt consists of the agent's turns and of the text that the template writes between them. Two rules:

- A dialogue that is text is rendered once by the template. A second rendering with placeholders for the replies gives
  their places. White space that the template writes between a prompt and its reply belongs to the reply.
- A dialogue that was sampled here has token ids. They follow the prompt that was sampled from unchanged, whatever the
  template would make of them, and then come the ids of what the template writes between that turn and the next prompt.
  Therefore the tokens of each prompt are a prefix of the next prompt, and of the dialogue that training sees.

Text is tokenised as the continuation of the text before it, because many tokenizers put a space before the beginning of
a text. `ChatFormat` compares its ids with those of the template's own text when it is made.

An EOS is trained only if the model produced it. After a reply that was cut, the EOS belongs to the template's text.
Text of a user, or of a reply without ids, that spells a special token is broken by a zero-width space.
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

_TURN = "\ue0f0reply\ue0f0"  # placeholder in the rendered text
_BREAK = "\u200b"
_TODAY = re.compile(r"""\bstrftime_now\(\s*(?:'([^']*)'|"([^"]*)")\s*\)""")
_CACHED = 16384
_CONTEXT = 200  # characters before a text that decide how it is tokenised
_PROBE = (
    ("user", "Which days?\nMonday, or 2 others?"),
    ("assistant", "Either: x = 1\n\n    y = 2."),
    ("user", "Then Tuesday. "),
)
TEMPLATE_DATE = date(2024, 7, 26)
"""What chat templates get for today's date (Llama 3.2, 3.3), so that a prompt is the same on every day. It is the date
that Llama's own templates fall back to."""


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
        self._rendered = lru_cache(maxsize=_CACHED)(self._render)
        self._tokenized = lru_cache(maxsize=_CACHED)(self._tokenize)
        ids = tokenizer.get_vocab()
        self.vocabulary = vocabulary or max(ids.values()) + 1
        self.fingerprint = hashlib.sha256(json.dumps(sorted(ids.items())).encode()).hexdigest()[:16]

        added = {token.content: token for token in tokenizer.added_tokens_decoder.values()}
        special = {text for text, token in added.items() if token.special} | set(tokenizer.all_special_tokens)
        markup = {text for text in added if text.strip() and text in str(tokenizer.chat_template)}
        self._special = _any_of(special)
        self._markup = _any_of(special | markup | {_TURN})

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
        self._tail = closing.partition(self.eos_text)[0] if marker else ""
        self._end = re.compile(rf"(?:\s*|{re.escape(self._tail)})(?:{_any_of(self._eos.values()).pattern})")
        self.lead = self._shown_lead = ""
        self._read_white_space()
        written: Part = {"text": opening + glue + self.eos_text, "train": False}
        self.encode([written], where=f"the chat template of {self.name}")
        self._check()

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

        Args:
            messages: Messages {role, content}; those of the assistant also with output (as sampled; default: content),
                token_ids (with the EOS, if one was produced) and finish_reason.
            tokenizer: Fingerprint of the tokenizer of the token_ids. If it is not this one, they are left out.
        """
        if not messages or messages[-1]["role"] == "assistant":
            raise ValueError("a prompt ends with a message that is not the assistant's")
        return self._layout(messages, tokenizer)

    def dialogue(self, messages: Sequence[Mapping[str, Any]], tokenizer: str | None = None) -> list[Part]:
        """What training sees of messages of which the last one is the assistant's, which ends with the EOS that it
        produced. Arguments as in `prompt`."""
        if not messages or messages[-1]["role"] != "assistant":
            raise ValueError("a dialogue ends with a message of the assistant")
        return self._layout(messages, tokenizer)

    def encode(
        self, parts: Sequence[Part], tokenizer_fingerprint: str | None = None, where: str = "a text"
    ) -> tuple[list[int], list[bool]]:
        """Tokenise each part as the continuation of the parts before it, adding no special tokens.

        The ids of the parts so far never change: a token that would span two parts is cut. Special-token text becomes
        the token in untrained parts (it is markup there), never in `plain` parts, and in the agent's turns only as the
        EOS at their end.

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
        context = white = ""  # white space is tokenised together with the reply that follows it

        def add(new: Sequence[int], trained: bool, stored: bool = False) -> None:
            self._check_ids(new, where, stored)
            ids.extend(new)
            train.extend([trained] * len(new))

        for part in parts:
            text, own = part["text"], part["train"] or part.get("turn", False)
            sampled = part.get("token_ids") if tokenizer_fingerprint == self.fingerprint else None
            if sampled is not None:
                add(self._tokenized(context, "", white)[0], False)
                add(sampled, part["train"], stored=True)
                context, white = self._eos.get(sampled[-1], text[-1:]) if sampled else context + white, ""
                continue
            check_characters(text, where)
            if text.isspace() and not own and context:
                white = text
                continue
            if part.get("plain"):
                text = _broken(text, self._markup)
            elif own:
                if self.lead and context.endswith(self.reply_header) and not (white + text).startswith(self.lead):
                    text = self.lead + text
                end = next((eos for eos in self._eos.values() if text.endswith(eos)), "")
                text = _broken(text.removesuffix(end), self._special) + end
            new, count, context = self._tokenized(context, white if own else "", text if own else white + text)
            add(new[:count], False)
            add(new[count:], part["train"])
            white = ""
        add(self._tokenized(context, "", white)[0], False)
        return ids, train

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without an EOS at the end and white space that the template puts around a reply."""
        ids = list(ids)
        ended = bool(ids) and ids[-1] in self.eos_ids
        text = self._decoded(ids[:-1] if ended else ids).removeprefix(self._shown_lead)
        return text.removesuffix(self._tail) if ended and self._tail.isspace() else text

    def _decoded(self, ids: Sequence[int]) -> str:
        """The text of ids behind the header of a reply, because decoders drop a space at the beginning of a text."""
        head, whole, alone = (
            self.tokenizer.decode(some, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for some in (self._header_ids, [*self._header_ids, *ids], list(ids))
        )
        return whole.removeprefix(head) if whole.startswith(head) else alone

    def _layout(self, messages: Sequence[Mapping[str, Any]], tokenizer: str | None) -> list[Part]:
        same = tokenizer in (None, self.fingerprint)
        turns = [message for message in messages if message["role"] == "assistant"]
        if turns and not (same and any(turn.get("token_ids") is not None for turn in turns)):
            return self._written(messages)
        return self._sampled(messages, same)

    def _written(self, messages: Sequence[Mapping[str, Any]]) -> list[Part]:
        """The parts of a dialogue that is text, as the template writes it."""
        prompt = messages[-1]["role"] != "assistant"
        rows, said, turns = [], [], []
        for place, message in enumerate(messages):
            content = message["content"]
            if message["role"] == "assistant":
                turns.append(place)
                content = _broken(self._said(message), self._markup)
                said.append((content, message.get("finish_reason") in (None, "stop")))
            rows.append((message["role"], content))
        text, pieces = self._apply(rows, prompt), self._rendered(_with_placeholders(messages), prompt)
        parts, start = self._beginning(pieces[0]), len(pieces[0])
        if not text.startswith(pieces[0]):
            raise self._changes(text, pieces[0])
        for number, ((reply, finished), after) in enumerate(zip(said, pieces[1:], strict=True), 1):
            forms = (reply, reply.strip(), reply.rstrip(), reply.lstrip())
            shown = next((form for form in forms if text.startswith(form + after, start)), None)
            if shown is None:
                raise self._changes(text[start:], reply + after)
            start += len(shown) + len(after)
            markup = parts.pop()["text"]
            if self.lead and markup.endswith(self.lead):  # behind the prompt: the model samples it
                markup, shown = markup.removesuffix(self.lead), self.lead + shown
            ahead = self._rendered(_with_placeholders(messages[: turns[number - 1]]), True)[-1]
            bare = markup if ahead.endswith(markup) else markup.rstrip()
            white = markup.removeprefix(bare)
            parts += [{"text": some, "train": False} for some in (bare, white) if some]
            last, produced = number == len(said) and not prompt, self._end.match(after)
            marker = produced.group() if produced else self.eos_text if last else ""
            if finished:
                parts.append({"text": shown + marker, "train": True})
                after = after.removeprefix(marker)
            else:
                parts.append({"text": shown, "train": True})
            if not last:
                parts.append({"text": after, "train": False})
        return parts

    def _sampled(self, messages: Sequence[Mapping[str, Any]], same: bool) -> list[Part]:
        """The parts of a dialogue of which some turns have token ids: each turn follows the prompt before it."""
        parts: list[Part] = []
        produced = ""
        prompt = messages[-1]["role"] != "assistant"
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        for place in [*turns, len(messages)] if prompt else turns:
            markup = self._rendered(_with_placeholders(messages[:place]), True)[-1]
            if not parts:
                parts += self._beginning(markup)
            else:
                parts.append({"text": self._without_marker(markup, produced) if produced else markup, "train": False})
            if place == len(messages):
                break
            message = messages[place]
            ids = message.get("token_ids") if same else None
            if message.get("templated"):
                written = self._written(messages[: place + 1])[-1]
                if not written["text"].removeprefix(self.lead).startswith(self._said(message)):
                    produced = next((eos for eos in self._eos.values() if written["text"].endswith(eos)), "")
                    parts.append(written)
                    continue
            if ids is not None:
                produced = self._eos.get(ids[-1], "") if ids else ""
                text = message["content"] if message.get("output") is None else message["output"]
                parts.append({"text": text.removesuffix(produced) + produced, "train": True, "token_ids": list(ids)})
                continue
            finished = message.get("finish_reason") in (None, "stop")
            produced = self.eos_text if finished else ""
            parts.append({"text": self._said(message) + (self._tail + produced if finished else ""), "train": True})
        return parts

    def _said(self, message: Mapping[str, Any]) -> str:
        """The text of a reply without ids: without the marker that ended it, and without reasoning.

        Raises UserError if its content has a reasoning.
        """
        text = message["content"] if message.get("output") is None else message["output"]
        if message.get("templated") or without_thinking(text) != text:
            text = message["content"]
        if without_thinking(text) != text:
            raise UserError(
                f"a reply without token ids has a reasoning ({text[:60]!r}...), which chat templates rewrite: leave it "
                "out of the content, or sample the dialogue with the model's tokenizer, which keeps token ids."
            )
        end = next((eos for eos in self._eos.values() if text.endswith(eos)), "")
        return text.removesuffix(end)

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

    def _render(self, messages: tuple[tuple[str, str | None], ...], add_generation_prompt: bool) -> list[str]:
        """The text before, between and after the assistant's turns, whose contents are None."""
        rows = [(role, _TURN if content is None else content) for role, content in messages]
        pieces = self._apply(rows, add_generation_prompt).split(_TURN)
        if len(pieces) != 1 + sum(content is None for _, content in messages):
            raise UserError(
                f"the chat template of {self.name} does not write each assistant turn once, which is needed."
            )
        return pieces

    def _apply(self, rows: Iterable[tuple[str, str]], add_generation_prompt: bool) -> str:
        from jinja2 import TemplateError

        messages = [
            {"role": role, "content": text if role == "assistant" else _broken(text, self._markup)}
            for role, text in rows
        ]
        try:
            return self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                chat_template=self._template,
            )
        except TemplateError as error:
            roles = ", ".join(row["role"] for row in messages)
            raise UserError(
                f"the chat template of {self.name} refuses messages of {roles}: {error}. Many templates "
                "have no system role and want user and assistant in turn: put such text into a user message."
            ) from error

    def _probe(self) -> tuple[str, str, str, str]:
        """What the template writes before the first user text, after the last reply, before a second reply (all of
        it), and between the first user text and the first reply."""
        rows = [
            ("user", "FirstQuestion"),
            ("assistant", "FirstReply"),
            ("user", "SecondQuestion"),
            ("assistant", "SecondReply"),
        ]
        whole = self._apply(rows, False)
        glue = self._apply(rows[:3], True)
        opening, _, rest = whole.partition("FirstQuestion")
        return opening, whole.rpartition("SecondReply")[2], glue, rest.partition("FirstReply")[0]

    def _find_bos(self, opening: str, glue: str) -> str:
        """The BOS as the template writes it. In ChatML the tokenizer's BOS can be a turn marker, which is none."""
        bos = self.tokenizer.bos_token
        if not bos or not opening.startswith(bos):
            return ""
        its_own = self.tokenizer("a")["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return bos if its_own or glue.count(bos) == 1 else ""

    def _without_marker(self, markup: str, produced: str) -> str:
        """The text after a turn for which the model produced the marker, without it and what stands before it (a space
        in ` </s>`)."""
        bare = markup.removeprefix(self._tail).lstrip()
        return bare.removeprefix(produced) if bare.startswith(produced) else markup

    def _read_white_space(self) -> None:
        """Find the white space that the template writes before a reply, and that with which a reply is decoded."""
        rows = (("user", "a"), ("assistant", None), ("user", "b"))
        prompt = self._rendered(rows[:1], True)[0]
        written = self._rendered(rows, True)[0]
        if written.startswith(prompt) and not written.removeprefix(prompt).strip():
            self.lead = written.removeprefix(prompt)
        _, _, header = self._tokenize("", "", prompt)
        self._header_ids = self._encoded(header)["input_ids"]
        reply, _, _ = self._tokenize(header, "", self.lead + "Reply")
        shown = self._decoded(reply).partition("Reply")[0]
        self._shown_lead = shown if not shown.strip() else ""

    def _check(self) -> None:
        """Compare the ids of a dialogue, as text and behind sampled ids, with those that the template itself gives.

        Raises:
            UserError: They differ, or the template changes a reply.
        """
        messages = [{"role": role, "content": text} for role, text in _PROBE]
        expected = self._encoded(self._apply(_PROBE, True))["input_ids"]
        written, _ = self.encode(self._written(messages))
        parts = self._sampled([messages[0], messages[1] | {"token_ids": [self.eos_ids[0]]}, messages[2]], True)
        before, _ = self.encode(parts[:-1], self.fingerprint)
        between = self.encode(parts, self.fingerprint)[0][len(before) :]
        for ids in (written, between):
            if expected[-len(ids) :] != ids:
                texts = [self.tokenizer.convert_ids_to_tokens(some) for some in (expected[-len(ids) :], ids)]
                raise UserError(
                    f"the chat template of {self.name} and what would be trained differ. The template: {texts[0]}. "
                    f"Here: {texts[1]}. Change the template so that it writes a message alike in every dialogue, and "
                    "no white space at the end of its add_generation_prompt that belongs to the reply's first token."
                )

    def _check_ids(self, ids: Sequence[int], where: str, stored: bool) -> None:
        """Raise UserError for an id that the model does not have; `stored` ids stand in a file."""
        if wrong := [token for token in ids if not 0 <= token < self.vocabulary]:
            reason = "Was the file edited? Without 'tokenizer' in its row, a text is tokenised again."
            if not stored:
                text = self.tokenizer.convert_ids_to_tokens(wrong[0])
                reason = f"Its tokenizer has a token for it, {text!r}: add a row to the embedding of the model "
                reason += "(resize_token_embeddings), or take the tokenizer that the model was trained with."
            raise UserError(
                f"{where}: the token id {wrong[0]} is outside of the vocabulary of {self.name}, whose ids are "
                f"below {self.vocabulary}. {reason}"
            )

    def _tokenize(self, context: str, white: str, text: str) -> tuple[list[int], int, str]:
        """The ids of a text behind a context and white space, how many of them are white space alone, and the context
        of the next text."""
        ids, places = self._behind(context, white + text)
        count = next((n for n, (_, last) in enumerate(places) if last > len(white)), len(ids)) if white else 0
        rest = (context + white + text)[-_CONTEXT:]
        marks = [found.start() for found in self._markup.finditer(rest)]
        return ids, count, rest[marks[-1] if marks else 0 :]

    def _behind(self, context: str, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text that continues a context, and their places in it: never a token that both share."""
        # Behind another text if they share one, because many tokenizers put a space before the beginning of a text.
        for before in (context, ".", "\n", "a"):
            head, whole = self._encoded(before), self._encoded(before + text)
            count, begin = len(head["input_ids"]), len(before)
            if whole["input_ids"][:count] == head["input_ids"]:
                places = [(first - begin, last - begin) for first, last in whole["offset_mapping"][count:]]
                return whole["input_ids"][count:], places
        alone = self._encoded(text)
        return alone["input_ids"], alone["offset_mapping"]

    def _encoded(self, text: str) -> Any:
        return self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)


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


def spoken_candidates(record: TurnCandidates) -> list[str]:
    """What others see of each candidate: without its reasoning, and empty if a limit cut that (`without_thinking`)."""
    prompt = record.input if isinstance(record.input, str) else parts_text(record.input)
    reasons = record.additional_finish_reasons or ["stop"] * len(record.additional_outputs)
    pairs = zip(record.additional_outputs, reasons, strict=True)
    return [without_thinking(text, prompt, reason == "stop") for text, reason in pairs]


def _with_placeholders(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str | None], ...]:
    return tuple((m["role"], None if m["role"] == "assistant" else m["content"]) for m in messages)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True) if text) or r"(?!)")


def _broken(text: str, pattern: re.Pattern[str]) -> str:
    """The text with a zero-width space behind the first character of what the pattern matches."""
    return pattern.sub(lambda match: match.group()[0] + _BREAK + match.group()[1:], text)


def _dated(template: str, name: str) -> str:
    """The chat template with TEMPLATE_DATE in place of its calls for the time. Raises UserError if one is computed."""
    dated = _TODAY.sub(lambda call: repr(TEMPLATE_DATE.strftime(call[1] or call[2] or "")), template)
    if "strftime_now(" in dated:
        raise UserError(
            f"the chat template of {name} computes the format of today's date, so its prompts would change from day to "
            "day. Write the format as text: strftime_now('%d %b %Y')."
        )
    return dated
