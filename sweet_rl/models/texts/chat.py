"""Messages -> parts -> token ids, with the agent's own tokens marked. No other module knows chat templates.

A prompt consists of the agent's turns and of the text that the template writes between them ("glue"). The glue is found
by rendering the template with a placeholder for each turn, so the template cannot trim a turn.

A turn that was sampled after a prompt of ours (it has token ids, or its prompt as text) follows that prompt unchanged.
Therefore the tokens of each prompt are a prefix of the next prompt, and of the dialogue that training sees. Any other
turn is laid out as the template writes it in its place: a template may leave out earlier reasoning, and write an empty
reasoning before a reply that has none. The last turn keeps its reasoning, whatever the template does. What the template
adds is not trained, except white space, which a model samples together with the first or the last token of its reply.

Text is tokenised as the continuation of the text before it, because many tokenizers put a space before the beginning of
a text, or drop white space behind a special token. `ChatFormat` compares its ids with those of the template's own text
when it is made.

An EOS is trained only if the model produced it. After a reply that was cut, the EOS belongs to the glue.
"""

import contextlib
import hashlib
import json
import logging
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from os.path import commonprefix
from pathlib import Path
from typing import Any

from sweet_rl.models.thinking import CLOSE, OPEN, opens_thinking, without_thinking
from sweet_rl.models.weights import context_length, load_config, model_path
from sweet_rl.runs.errors import UserError, first_line, read_by_library
from sweet_rl.runs.records import Part, TurnCandidates

logger = logging.getLogger(__name__)
# Placeholders in the rendered text: an assistant turn, and the fence around special-token text in a content.
# If a content holds these characters itself, they are fenced as well.
_TURN, _OPEN, _CLOSE = "\ue0f0", "\ue0f1", "\ue0f2"
_TODAY = re.compile(r"""\bstrftime_now\(\s*(?:'([^']*)'|"([^"]*)")\s*\)""")
_FENCED = re.compile(f"{_OPEN}([0-9a-f]+){_CLOSE}")
_CACHED = 16384
_CONTEXT = 200  # characters before a text that decide how it is tokenised
_NEVER = re.compile(r"(?!)")
_PROBE = (
    ("user", "Which days?\nMonday, or 2 others?"),
    ("assistant", "Either: x = 1\n\n    y = 2."),
    ("user", "Then Tuesday. "),
    ("assistant", "I see"),
)
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
        lead: White space that the template writes between the header and a reply.

    Raises:
        UserError: No chat template, no token that ends a turn, or a template whose own token ids for a dialogue are
            not those that would be trained.
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
        self._strips_left = {text for text, token in added.items() if token.lstrip}
        # A tokenizer that puts a space before the beginning of a text needs another text before a continuation.
        self._anchors = () if self._raw("\na") == self._raw("\n") + self._raw("a") else (".", "\n", "a")

        with _time_limit(self.name):
            opening, closing, glue, between = self._probe()
            self._read_reasoning()
        marker = self._markup.search(closing)
        end = tokenizer.convert_tokens_to_ids(marker.group()) if marker else tokenizer.eos_token_id
        if end is None:
            raise UserError(f"{self.name} has no end-of-turn token: set tokenizer.eos_token and save the tokenizer.")
        known = [i for i in (end, tokenizer.eos_token_id, *eos_ids) if i is not None and i < len(tokenizer)]
        self._eos = {i: text for i in known if (text := tokenizer.decode([i], skip_special_tokens=False))}
        self.eos_ids: tuple[int, ...] = tuple(self._eos)
        self.eos_text: str = self._eos[end]
        self.bos_text: str = self._find_bos(opening, glue)
        self._prompt_end = glue.rpartition("SecondQuestion")[2]
        header = commonprefix([between, self._prompt_end]).strip()
        self.reply_header: str = header.removeprefix(self.eos_text).strip()
        self._tail = closing.partition(self.eos_text)[0] if marker else ""
        # Before another message a template can close a reply with another marker, which ends a turn or does not.
        earlier = self._markup.match(glue.partition("FirstReply")[2].lstrip())
        self._earlier_eos = earlier.group() if earlier else self.eos_text
        if self._earlier_eos not in self._eos.values():
            self._earlier_eos = ""
        self.lead = ""
        self._read_white_space()
        written: Part = {"text": opening + glue + self.eos_text, "train": False}
        self.encode([written], where=f"the chat template of {self.name}")
        with _time_limit(self.name):
            self._check(bool(marker))

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
                token_ids (with the EOS, if one was produced), finish_reason, and input (the text of the prompt that
                output continues). One that is `templated` is written as the template writes its content, which it may
                trim.
            tokenizer: Fingerprint of the tokenizer of the token_ids. If it is not this one, they are left out and
                the text is tokenised, and input does not count.
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
        EOS at their end. Before a finished turn without token ids, a reasoning that its prompt opens is closed.

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
        context = space = ""  # white space is tokenised together with the reply that follows it

        def add(new: Sequence[int], trained: bool) -> None:
            ids.extend(new)
            train.extend([trained] * len(new))

        for part in parts:
            text, own, plain = part["text"], part["train"] or part.get("turn", False), part.get("plain", False)
            sampled = part.get("token_ids") if tokenizer_fingerprint == self.fingerprint else None
            if sampled is not None:
                self._check_ids(sampled, where, stored=True)
                add(self._ids_of(context, space, False, False)[0], False)
                add(sampled, part["train"])
                context, space = self._eos.get(sampled[-1], text[-1:]) if sampled else context + space, ""
                continue
            check_characters(text, where)
            if own and not plain and text.endswith(tuple(self._eos.values())) and _left_open(context, text):
                closing, context = self._ids_of(context, space + self._closing.rstrip(), False, False)
                add(closing, False)
                space = self._closing[len(self._closing.rstrip()) :]
            text = space + text
            if context and text.isspace() and not own:
                space = text
                continue
            new, context = self._ids_of(context, text, own, plain)
            self._check_ids(new, where, stored=False)
            white = self._count_white(new, space) if own and space else 0
            add(new[:white], False)
            add(new[white:], part["train"])
            space = ""
        add(self._ids_of(context, space, False, False)[0], False)
        return ids, train

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

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without an EOS at the end and white space that the template puts around a reply."""
        ids = list(ids)
        ended = bool(ids) and ids[-1] in self.eos_ids
        text = self._decoded(ids[:-1] if ended else ids).removeprefix(self._shown_lead)
        return text.removesuffix(self._tail) if ended and self._tail.isspace() else text

    def _count_white(self, ids: Sequence[int], space: str) -> int:
        """The number of the first ids that are nothing but (a part of) `space`."""
        return next((n for n in range(len(ids)) if not space.startswith(self._decoded(ids[: n + 1]))), len(ids))

    def _decoded(self, ids: Sequence[int]) -> str:
        """The text of ids behind the header of a reply, because decoders drop a space at the beginning of a text."""
        head, whole, alone = (
            self.tokenizer.decode(some, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for some in (self._header_ids, [*self._header_ids, *ids], list(ids))
        )
        return whole.removeprefix(head) if whole.startswith(head) else alone

    def _layout(self, messages: Sequence[Mapping[str, Any]], tokenizer: str | None) -> list[Part]:
        """The turns, and before each of them and at the end the glue."""
        parts: list[Part] = []
        produced = ""
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        prompt = messages[-1]["role"] != "assistant"
        for number, place in enumerate([*turns, len(messages)] if prompt else turns):
            turn: Part | None = None
            before = produced
            if place < len(messages):
                glue, turn, produced = self._turn(messages, place, number, tokenizer)
            else:
                glue = [self._glue(messages)]
            if before:
                glue[0] = self._without_marker(glue[0], before)
            elif number == 0 and self.bos_text:
                parts.append({"text": self.bos_text, "train": False, "bos": True})
                glue[0] = glue[0].removeprefix(self.bos_text)
            parts += [part for text in glue for part in _untrained(text)]
            if turn is not None:
                parts.append(turn)
        return parts

    def _turn(
        self, messages: Sequence[Mapping[str, Any]], place: int, number: int, tokenizer: str | None
    ) -> tuple[list[str], Part, str]:
        """The glue before the assistant's message at `place`, its turn as a trained part, and the text of the EOS that
        ends it ("" if it was cut). `number` is that of the turn."""
        message, seen = messages[place], messages[: place + 2]
        if message.get("templated"):
            written = self._as_written(seen, place, message["content"], self._before(seen, number))
            if written is not None and written != message["content"]:
                message = {"role": "assistant", "content": written, "templated": True}
        text = message["content"] if message.get("output") is None else message["output"]
        ids, prompt = message.get("token_ids"), self._glue(messages[:place])
        same = tokenizer in (None, self.fingerprint)
        if ids is not None and same:
            produced = self._eos.get(ids[-1], "") if ids else ""
            text = text.removesuffix(produced) + produced
            return [prompt], {"text": text, "train": True, "token_ids": list(ids)}, produced
        ending = next((eos for eos in self._eos.values() if text.endswith(eos)), "")
        finished = message.get("finish_reason") in (None, "stop")
        said, glue = text.removesuffix(ending) if finished else text, [prompt]
        continued = same and (message.get("input") or "").endswith(self._prompt_end)
        if message.get("templated") or not continued or (finished and _left_open(prompt, said)):
            spoken = without_thinking(said, prompt if continued else None, finished)
            glue, said = self._in_place(seen, place, number, said, spoken)
        if finished:
            produced = ending or (self.eos_text if place + 1 == len(messages) else self._earlier_eos)
            tail = self._tail if produced and not ending else ""
            return glue, {"text": said + tail + produced, "train": True}, produced
        cut: Part = {"text": said, "train": True}
        if ending:
            cut["plain"] = True
        return glue, cut, ""

    def _in_place(
        self, messages: Sequence[Mapping[str, Any]], place: int, number: int, said: str, spoken: str
    ) -> tuple[list[str], str]:
        """The glue before a turn and its text, as the template writes them where the turn stands.

        Args:
            messages: The messages up to the one after the turn, if there is one.
            place: Place of the turn.
            number: Number of the turn.
            said: Text of the turn.
            spoken: The text without its reasoning.
        """
        prompt, before = self._glue(messages[:place]), self._before(messages, number)
        # A template that leaves out the last reply's reasoning too (R1) writes a text that no model samples.
        if spoken != said and (place + 1 == len(messages) or self._keeps_reasoning):
            opening = prompt[prompt.rindex(OPEN) :] if opens_thinking(prompt) else ""
            said = said.removeprefix(opening).removeprefix(OPEN if opening else "")
            written = self._as_written(messages, place, opening + said, prompt)
            return [prompt], said if written is None or CLOSE not in written else written
        if spoken != said:
            written = self._as_written(messages, place, said, before)
            said = spoken if written is None or CLOSE in written else written
        glue = before.removesuffix(self.lead)
        bare = glue if glue == prompt else glue.rstrip()  # a prompt keeps its ids, whatever the reply
        return [bare, glue.removeprefix(bare)], self.lead + said

    def _before(self, messages: Sequence[Mapping[str, Any]], number: int) -> str:
        """The glue before a turn in these messages, which end with the turn or with the message after it."""
        return self._rendered(_with_placeholders(messages), messages[-1]["role"] != "assistant")[number]

    def _as_written(self, messages: Sequence[Mapping[str, Any]], place: int, content: str, before: str) -> str | None:
        """What the template writes of a content of the assistant's message at `place`, behind the glue `before`; None
        if that is not clear."""
        rows = tuple((m["role"], content if i == place else m["content"]) for i, m in enumerate(messages))
        written = self._written(rows, place)
        return written.removeprefix(before) if written and written.startswith(before) else None

    def _write(self, messages: tuple[tuple[str, str], ...], place: int) -> str | None:
        """What the template writes from the end of the turn before `place` to the end of its content."""
        rows = [(role, None if role == "assistant" else content) for role, content in messages]
        prompt = messages[-1][0] != "assistant"
        number = sum(role == "assistant" for role, _ in messages[:place])
        after = _TURN.join(self._rendered(tuple(rows), prompt)[number + 1 :])
        said = self._rows(rows)
        said[place]["content"] = messages[place][1]
        written = self._apply(said, prompt).split(_TURN, number)[-1]
        return written.removesuffix(after) if written.endswith(after) else None

    def _glue(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The markup from the end of the assistant's last turn (or from the start) to the next reply."""
        return self._rendered(_with_placeholders(messages), True)[-1]

    def _render(self, messages: tuple[tuple[str, str | None], ...], add_generation_prompt: bool) -> list[str]:
        """The text before, between and after the assistant's turns, whose contents are None."""
        pieces = self._apply(self._rows(messages), add_generation_prompt).split(_TURN)
        if len(pieces) != 1 + sum(content is None for _, content in messages):
            raise UserError(
                f"the chat template of {self.name} does not write each assistant turn once, which is needed."
            )
        return pieces

    def _rows(self, messages: Iterable[tuple[str, str | None]]) -> list[dict]:
        return [
            {"role": role, "content": _TURN if content is None else self._markup.sub(_fence, content)}
            for role, content in messages
        ]

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

    def _without_marker(self, glue: str, produced: str) -> str:
        """The glue after a turn for which the model produced the marker, without it and what stands before it (a space
        in ` </s>`)."""
        bare = glue.removeprefix(self._tail).lstrip()
        return bare.removeprefix(produced) if bare.startswith(produced) else glue

    def _read_reasoning(self) -> None:
        """Find out whether the template keeps the reasoning of earlier replies, and how it closes one that is empty."""
        rows = [{"role": "user", "content": "a"}, {"role": "assistant", "content": f"{OPEN}\nthought\n{CLOSE}\n\nb"}]
        self._keeps_reasoning = "thought" in self._apply([*rows, rows[0]], True)
        prompt = self._apply(rows[:1], True)
        rows[1]["content"] = _TURN
        written = self._apply(rows, False).partition(_TURN)[0]
        closes = opens_thinking(prompt) and written.startswith(prompt) and written.rstrip().endswith(CLOSE)
        self._closing = written.removeprefix(prompt) if closes else f"\n{CLOSE}\n\n"

    def _read_white_space(self) -> None:
        """Find the white space that the template writes before a reply, and that with which a reply is decoded."""
        rows = (("user", "a"), ("assistant", None), ("user", "b"))
        prompt = self._rendered(rows[:1], True)[0]
        written = self._rendered(rows, True)[0]
        if written.startswith(prompt) and not written.removeprefix(prompt).strip():
            self.lead = written.removeprefix(prompt)
        _, header = self._tokenize("", prompt, False, False)
        self._header_ids = list(self._raw(header))
        self._shown_lead = ""
        shown = self._decoded(list(self._after((header, *self._anchors), self.lead + "Reply"))).partition("Reply")[0]
        self._shown_lead = shown if not shown.strip() else ""

    def _check(self, closes: bool) -> None:
        """Compare the ids of a dialogue with those that the template itself gives.

        Args:
            closes: Whether the template writes a marker after a reply. Without one only a prompt is compared, because
                here an EOS follows a reply.

        Raises:
            UserError: They differ.
        """
        rows = [{"role": role, "content": text} for role, text in _PROBE]
        asked, answered = self._template_ids(rows[:1], True), self._template_ids(rows[:2], False)
        for count in range(1, len(rows) + 1 if closes else 2):
            prompt = count % 2 == 1
            found, _ = self.encode(self._layout(rows[:count], None))
            expected = self._template_ids(rows[:count], prompt)
            if found == (expected if prompt else expected[: len(found)]):
                continue
            texts = [self.tokenizer.decode(ids, skip_special_tokens=False) for ids in (expected, found)]
            tokens = [self.tokenizer.convert_ids_to_tokens(ids) for ids in (expected, found)]
            both = f"The template: {texts[0]!r}, as tokens {tokens[0]}. Here: {texts[1]!r}, as tokens {tokens[1]}."
            if answered[: len(asked)] == asked or not texts[0].startswith(texts[1]):
                raise UserError(
                    f"the chat template of {self.name} and what would be trained differ. {both} Change the template so "
                    "that it writes a message alike in every dialogue."
                )
            logger.warning(
                "the chat template of %s ends a prompt within a token of its own dialogue, so each prompt keeps its "
                "ids, as in sampling, and a reply begins behind them. Move the white space at the end of its "
                "add_generation_prompt to the reply. %s",
                self.name,
                both,
            )
            return

    def _template_ids(self, rows: list[dict], add_generation_prompt: bool) -> list[int]:
        return self.tokenizer.apply_chat_template(
            rows,
            chat_template=self._template,
            tokenize=True,
            return_dict=False,
            add_generation_prompt=add_generation_prompt,
        )

    def _tokenize(self, context: str, text: str, own: bool, plain: bool) -> tuple[tuple[int, ...], str]:
        """The ids of a text, and the context of the next one.

        Args:
            context: End of the text before it, from its last special token; "" at the beginning.
            text: The text.
            own: Whether it is a turn of the agent.
            plain: Whether no special token arises in it.
        """
        pattern = self._markup if plain else self._special if own else _NEVER
        end = next((i for i, eos in self._eos.items() if text.endswith(eos)), None) if own and not plain else None
        if own and self.lead and context.endswith(self.reply_header) and not text.startswith(self.lead):
            text = self.lead + text
        if end is not None:
            text = text.removesuffix(self._eos[end])
            text = text.rstrip() if self._eos[end] in self._strips_left else text
        ids: tuple[int, ...] = ()
        contexts = (context, *self._anchors)
        for piece in _broken(text, pattern):
            ids += self._after(contexts, piece)
            context, contexts = piece if contexts == self._anchors else context + piece, self._anchors
        if end is not None:
            return (*ids, end), self._eos[end]
        context = context[-_CONTEXT:]
        return ids, context[max((found.start() for found in self._markup.finditer(context)), default=0) :]

    def _after(self, contexts: Sequence[str], text: str) -> tuple[int, ...]:
        """The ids of a text behind the first of `contexts` with which it shares no token."""
        for context in contexts:
            head, whole = self._raw(context), self._raw(context + text)
            if whole[: len(head)] == head:
                return whole[len(head) :]
        return self._raw(text)

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


def spoken_candidates(record: TurnCandidates) -> list[str]:
    """What others see of each candidate: without its reasoning, and empty if a limit cut that (`without_thinking`)."""
    prompt = record.input if isinstance(record.input, str) else parts_text(record.input)
    reasons = record.additional_finish_reasons or ["stop"] * len(record.additional_outputs)
    pairs = zip(record.additional_outputs, reasons, strict=True)
    return [without_thinking(text, prompt, reason == "stop") for text, reason in pairs]


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


def _left_open(before: str, text: str) -> bool:
    """Whether a prompt opens a reasoning and the text after it does not close it."""
    return opens_thinking(before) and CLOSE not in text


def _with_placeholders(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str | None], ...]:
    return tuple((m["role"], None if m["role"] == "assistant" else m["content"]) for m in messages)


def _broken(text: str, pattern: re.Pattern[str]) -> list[str]:
    """The text in pieces, so that what matches the pattern is broken behind its first character."""
    places = [0]
    while match := pattern.search(text, places[-1]):
        places.append(match.start() + 1)
    return [text[start:end] for start, end in zip(places, [*places[1:], None], strict=True)]


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
