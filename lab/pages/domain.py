"""Frontend Design with a script in place of the vision model: run_frontend.sh can be tried without a GPU.

python scripts/simulate_interactions.py --task_type lab/pages/domain.py --env_model designer ...
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

from sweet_rl.dialogues import HumanReply
from sweet_rl.dialogues.frontend.environment import DOMAIN as FRONTEND
from sweet_rl.dialogues.frontend.vision_human import newest_draft
from sweet_rl.models.base import Message
from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.runs.records import Task

PART = re.compile(r'<(\w+) style="background:(\w+)">\s*([^<\n]*)')


class Designer:
    """Says what one part of the reference page looks like that the newest draft does not have so."""

    def __init__(self, renderer: PageRenderer) -> None:
        pass  # because it compares the sources of the pages

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        draft = newest_draft(dialogue)
        if draft is None:
            return HumanReply("Please show me a page.")
        drawn = PART.findall(draft)
        missing = [part for part in PART.findall(task.ground_truth) if part not in drawn]
        if not missing:
            return HumanReply("That is the page that I have in mind.")
        tag, color, text = random.Random(seed).choice(missing)
        return HumanReply(f"The {tag} should be {color}" + (f" and say {text}." if text else "."))


DOMAIN = replace(
    FRONTEND,
    name="pages",
    agent_prompt="{problem_description}",
    scripted_humans={"designer": Designer},
)
