"""What can be seen in a single reply of a simulated human, without a model: helplessness, and an early end of the help.

Both are found by their usual phrasings in English; other phrasings are missed.
"""

from __future__ import annotations

import re

_UNKNOWN = re.compile(
    r"\b(?:i|we)(?: really| just)? (?:do not|don['’]?t|cannot|can['’]?t) (?:know|say|tell)\b|\bno idea\b"
    r"|\b(?:i am|i['’]m|we are|we['’]re) (?:not sure|unsure)\b|\bthat i (?:do not|don['’]?t) know\b",
    re.IGNORECASE,
)
_ENDS_HELP = re.compile(
    r"\bthat(?: is|['’]?s) (?:all|everything|it for)\b|\b(?:nothing|not anything) (?:else|more) (?:to|that|i|we|is)\b"
    r"|\b(?:no (?:more|further|other)|enough|stop (?:with )?(?:the |your )?(?:asking )?) ?questions\b|\bstop asking\b"
    r"|\byou (?:now |already )?(?:have|know) (?:everything|all|enough)\b"
    r"|\b(?:i|we)(?: have|['’]ve)? (?:already )?told you (?:everything|all|enough)\b"
    r"|\b(?:just|please|now|can|should|go ahead and) (?:now )?(?:write|implement|finish|submit|hand in|give me) "
    r"(?:it|the (?:code|function|page|answer|solution)|your (?:code|answer|page|solution))\b|\bgo ahead(?= *[.!]|$)",
    re.IGNORECASE,
)


def does_not_know(reply: str) -> bool:
    """Whether the human says that it does not know."""
    return _UNKNOWN.search(reply) is not None


def ends_help(reply: str) -> bool:
    """Whether the human says that there is nothing more to ask, or tells the agent to hand in its work."""
    return _ENDS_HELP.search(reply) is not None
