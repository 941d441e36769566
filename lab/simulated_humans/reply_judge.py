"""A language model as a judge of a human's reply: does it contradict the reference solution?"""

from __future__ import annotations

import re

from sweet_rl.models.base import ChatModel, Sampling
from sweet_rl.models.prompts import fill
from sweet_rl.runs.records import Task

PROMPT_VALUES = ("ground_truth", "question", "reply")
VERDICT = re.compile(r"verdict\W{0,6}(true|wrong)\b", re.IGNORECASE)
VERDICT_TOKENS = 512


async def contradicts(model: ChatModel, prompt_template: str, task: Task, question: str, reply: str) -> bool | None:
    """Whether a reply contradicts the reference solution; None if the judge's verdict cannot be read.

    The judge is asked once, greedily. `question` is the agent's message, `prompt_template` has the `PROMPT_VALUES`.
    Raises ModelError if the judge gives no reply.
    """
    prompt = fill(prompt_template, ground_truth=task.ground_truth, question=question, reply=reply)
    sampling = Sampling(temperature=0.0, max_tokens=VERDICT_TOKENS)
    (completion,) = await model.complete([{"role": "user", "content": prompt}], sampling)
    found = VERDICT.findall(completion.text)
    return found[-1].lower() == "wrong" if found else None
