"""The body of the requests for one model, without what its servers refuse."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sweet_rl.models.base import ModelError, Sampling

logger = logging.getLogger(__name__)
# Without these a server of open models applies what the model's generation_config.json says of them.
PLAIN_SAMPLING = {"top_k": -1, "repetition_penalty": 1.0, "min_p": 0.0}
SAMPLED_WITH = ("top_p", "temperature")
NEUTRAL = {"top_p": 1.0, "temperature": 1.0}  # values that change nothing
NOT_EVERYWHERE = ("return_token_ids", "logprobs", *PLAIN_SAMPLING, "seed", "top_p", "temperature", "n")
_NOT_TAKEN = re.compile(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|forbidden|deprecated|cannot|\bextra\b|\bonly\b|no longer"
    r"|(not|n't) (currently |yet )?(be )?(support|permit|allow|accept|available|implement|recogni|both)"
    r"|not a valid|invalid (parameter|argument|field)",
    re.IGNORECASE,
)
# Names of fields in a sentence. Those that a prompt may have as words are quoted, or stand where a name stands.
_NAMES = re.compile(
    r"(?:['\"`.:,({\[=]\s*|\b(?:parameters?|arguments?|fields?|property|support|and|or|in\w+|un\w+)\s+)(temperature|seed)\b"
    r"|\b(temperature|seed)(?:['\"`=:,]|\s+(?:is (?:not|un|deprecated|only)|isn't|does(?: not|n't)|not (?:supp|allow)"
    r"|(?:and|or) ['\"`]?\w+_))"
    r"|\b(\w*_\w+|logprobs)\b|['\"`](\w+)['\"`]"
)


@dataclass(frozen=True)
class Form:
    """What is left out of bodies, or sent otherwise, because a server refused it by name.

    Attributes:
        left_out: Names of fields.
        text_only: Whether prompts are sent as text.
        token_limit: Name of the field with the largest number of tokens.
    """

    left_out: frozenset[str] = frozenset()
    text_only: bool = False
    token_limit: str = "max_tokens"


class RequestBody:
    """Bodies of requests.

    Args:
        model: The name under which the servers know the model.
        request: Fields that override all others; None leaves a field out.
        hosted: Whether the server is OpenAI's own, which does not know the fields of PLAIN_SAMPLING.

    Attributes:
        form: The form that servers have accepted.
        one_at_a_time: Whether the servers give one reply per call.
    """

    def __init__(self, model: str, request: Mapping[str, Any] | None, hosted: bool = False) -> None:
        self.model = model
        self.one_at_a_time = False
        self._request = dict(request or {})
        self._unknown = frozenset(PLAIN_SAMPLING if hosted else ())
        self.form = Form()

    def build(self, prompt: dict[str, Any], sampling: Sampling, text: str | None, form: Form) -> dict[str, Any]:
        """Return the body of one request.

        Args:
            prompt: The fields beside the sampling settings.
            sampling: Its seed is sent modulo 2**31.
            text: The prompt as text, for a server that takes no token ids.
            form: What is left out or sent otherwise.
        """
        limit = form.token_limit if "messages" in prompt else "max_tokens"  # /completions has no other name for it
        body = (
            prompt
            | PLAIN_SAMPLING
            | {
                "model": self.model,
                limit: sampling.max_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "n": sampling.n,
                "seed": sampling.seed % 2**31,
            }
        )
        if form.text_only and text is not None:
            body["prompt"] = text
        left_out = form.left_out | self._unknown
        body = {name: value for name, value in body.items() if name not in left_out} | self._request
        return {name: value for name, value in body.items() if value is not None}

    def adapted(self, error: ModelError, sent: dict[str, Any], form: Form) -> Form | None:
        """Return the form without what the server refused by name, one field at a time; None if it named none.

        A refusal of several replies per call ("Only one completion choice is allowed") may name no field, so that one
        reply is asked for before such a refusal stands.

        What changes no probability goes first: of temperature and top_p, which some models do not take together, the
        one with the neutral value. The other goes only if the server does not take that field; if it does not take
        that value, the refusal stands.

        Args:
            error: The refusal. Only the kind "refused" is about a field.
            sent: The body that was refused.
            form: The form of that body.
        """
        if error.kind != "refused":
            return None
        sentences = re.split(r"(?<=[.;!?])\s|\n", str(error))
        takes_text = any(re.search(r"\bprompt\b.*\bstr(ing)?\b", sentence) for sentence in sentences)
        if takes_text and isinstance(sent.get("prompt"), list) and not form.text_only:
            return replace(form, text_only=True)
        refused, named = self._named(sentences, error.param, sent)
        if "max_tokens" in refused and "messages" in sent and "max_completion_tokens" in str(error):
            return replace(form, token_limit="max_completion_tokens")
        known = [name for name in NOT_EVERYWHERE if name in named]
        found = [name for name in known if name not in SAMPLED_WITH or sent[name] == NEUTRAL[name]]
        found += [name for name in known if name in refused]
        found += ["n"] if sent.get("n", 1) != 1 and "n" not in self._request else []
        return replace(form, left_out=form.left_out | {found[0]}) if found else None

    def accept(self, form: Form, error: ModelError | None) -> None:
        """Keep the form of a body that a server has answered after `error`, its last refusal of another one."""
        before = self.form
        self.form = Form(
            before.left_out | form.left_out,
            before.text_only or form.text_only,
            before.token_limit if form.token_limit == "max_tokens" else form.token_limit,
        )
        self.one_at_a_time |= "n" in form.left_out
        if self.form != before:
            changes = ", ".join(self.changes())
            logger.warning("%s: not sent from now on: %s (%s)", self.model, changes, str(error)[:200])

    def changes(self) -> list[str]:
        """Return what is left out, or sent in another form, because a server refused it."""
        found = sorted(self.form.left_out)
        if self.form.text_only:
            found.append("token ids of prompts")
        if self.form.token_limit != "max_tokens":
            found.append(f"max_tokens (sent as {self.form.token_limit})")
        return found

    def _named(self, sentences: list[str], param: str | None, sent: dict[str, Any]) -> tuple[set[str], set[str]]:
        """Return the names of sent fields that the server does not take, and of all that its refusal names."""
        own = {name for name in sent if name not in self._request}
        named: set[str] = set()
        refused: set[str] = set()
        for sentence in sentences:
            words = {word for match in _NAMES.finditer(sentence) for word in match.groups() if word}
            if param is not None and sentence is sentences[0]:
                words |= set(re.split(r"[^\w]+", param))
            named |= own & words
            if _NOT_TAKEN.search(sentence):
                refused |= own & words
        return refused, named
