"""The small world of pages as a domain: Frontend Design with a scripted designer and an oracle.

python scripts/simulate_interactions.py --task_type lab/pages/domain.py --env_model designer ...
"""

from __future__ import annotations

from dataclasses import replace

from lab.pages.designer import ScriptedDesigner, check_page_tasks
from lab.pages.page_oracle import label_turn
from sweet_rl.dialogues import ScriptedHuman
from sweet_rl.dialogues.frontend.environment import DOMAIN as FRONTEND

DOMAIN = replace(
    FRONTEND,
    name="pages",
    agent_prompt="{problem_description}",
    scripted_humans={"designer": ScriptedHuman(ScriptedDesigner, check_page_tasks)},
    label_turn=label_turn,
)
