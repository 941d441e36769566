"""What a human's reply says about a mini task, as code: the reference solution as it would be if the reply were true.

The sandbox runs it on the tests of the task, which detect every rule that is missing or slightly wrong. The sentences
of the scripted human and lines of code are read exactly. Of other sentences the numbers (in digits) are read, and the
form of the rule from the words that only one of its forms uses; a reply with more or fewer numbers than the rule has is
not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sweet_rl.dialogues.mini.oracle import topic_of
from sweet_rl.dialogues.mini.tasks import Rule, family_of, rules_of, source
from sweet_rl.dialogues.mini.worlds import TOPIC_BY_NAME, Topic, world_of
from sweet_rl.runs.records import Message, Task

COMMON = {"by", "for", "from", "if", "it", "the", "us", "we", "with"}


def claimed_solution(task: Task, messages_before: Sequence[Message], reply: str) -> str | None:
    """The code of the task with the rule that a reply states in place of the hidden one.

    Args:
        task: Task of the dialogue.
        messages_before: Dialogue before the reply; its last message is the question.
        reply: Reply of the human.

    Returns:
        None if `task` is no mini task, the question is about no rule, or the reply states none that can be read.
    """
    mini = task.extra.get("mini")
    if mini is None:
        return None
    name = topic_of(messages_before[-1]["content"], world_of(mini))
    family, rules = family_of(mini), rules_of(mini)
    if name is None:
        return None
    rule = claimed_rule(TOPIC_BY_NAME[name], reply, family.flag)
    if rule is None:
        return None
    return source(family, [other for other in rules if other.topic != name] + [rule])


def claimed_rule(topic: Topic, reply: str, flag: str) -> Rule | None:
    """The rule of a topic that a reply states, or None."""
    for form, (code, sentences) in enumerate(topic.forms):
        for sentence in (code, *sentences):
            pattern = re.escape(sentence.replace("{flag}", flag))
            for name in "ab":  # the same number at each further place
                pattern = pattern.replace(rf"\{{{name}\}}", rf"(?P<{name}>\d{{1,9}})", 1)
                pattern = pattern.replace(rf"\{{{name}\}}", f"(?P={name})")
            if match := re.search(pattern, reply):
                stated = match.groupdict()
                return Rule(topic.name, form, int(stated["a"]), int(stated.get("b", 0)))
    numbers = [int(text) for text in re.findall(r"\b\d{1,9}\b", reply)]
    meant = _form(topic, reply)
    if meant is None or len(numbers) != 1 + ("{b}" in topic.forms[meant][0]):
        return None
    return Rule(topic.name, meant, numbers[0], numbers[-1])


def _form(topic: Topic, reply: str) -> int | None:
    """The form of the rule by the words of its sentences that no other form uses; None if they do not decide."""
    if len(topic.forms) < 2:
        return 0 if topic.forms else None
    words = [_words(" ".join(sentences)) for _, sentences in topic.forms]
    found = _words(reply)
    hits = [len(found & own - set().union(*(other for other in words if other is not own))) for own in words]
    best = max(hits)
    return hits.index(best) if best and hits.count(best) == 1 else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - COMMON
