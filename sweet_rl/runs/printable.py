"""Texts of somebody else on a terminal, which control characters would steer."""

from __future__ import annotations

import re

# Control characters but tab and line feed, marks that turn the direction of writing, halves of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text with the characters that steer a terminal as escapes (`\x1b`); its lines stay lines."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
