"""What `--task_type` names: the rules, the prompts and the simulated human of a domain. One row a domain.

Another domain is one more row of TASK_TYPES; the scripts read everything from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sweet_rl.environments.backend import CodeCollaboration
from sweet_rl.environments.frontend import HtmlCollaboration
from sweet_rl.errors import UserError
from sweet_rl.humans import llm, vision
from sweet_rl.humans.base import Human
from sweet_rl.humans.llm import LLMHuman
from sweet_rl.humans.vision import VisionHuman
from sweet_rl.mini.designer import ScriptedDesigner, check_page_tasks
from sweet_rl.mini.human import MiniHuman, check_tasks
from sweet_rl.models.base import ChatModel
from sweet_rl.records import Task


@dataclass(frozen=True)
class ScriptedHuman:
    """A human without a model: how it is made (with `renderer=`, where the domain draws pages), and what raises
    UserError for tasks (of a file) that it cannot play."""

    make: Callable[..., Human]
    check_tasks: Callable[[Sequence[Task], str], None]


@dataclass(frozen=True)
class TaskType:
    """A domain.

    Attributes:
        environment: makes a task's environment: (task, agent_prompt=text, max_turns=number).
        agent_prompt: the packaged template of the agent's instructions; `agent_prompts` has those of agents that
            bring their own, by the name of the agent.
        user_prompt: the packaged template of the human's instructions, which holds `user_prompt_values`.
        max_chars: length at which the human's replies are cut (PAPER, Table 5: 400 backend, 1,000 frontend).
        human: plays the human with a model: (model, user prompt, max_chars=, retry_leaks=, temperature=, max_tokens=).
        scripted: humans without a model, by the name that `--env_model` takes for them.
        draws_pages: whether the human looks at pictures of pages: it is given `renderer=`, a PageRenderer, and a model
            that plays it must see pictures.
    """

    environment: Callable[..., CodeCollaboration]
    agent_prompt: str
    user_prompt: str
    user_prompt_values: Sequence[str]
    max_chars: int
    human: Callable[..., Human]
    agent_prompts: Mapping[str, str] = field(default_factory=dict)
    scripted: Mapping[str, ScriptedHuman] = field(default_factory=dict)
    draws_pages: bool = False

    def begin(self, agent_prompt: str, max_turns: int) -> Callable[[Task], CodeCollaboration]:
        """A task's environment from the task alone."""
        return partial(self.environment, agent_prompt=agent_prompt, max_turns=max_turns)

    def make_human(self, name: str, model: ChatModel | None, user_prompt: str, renderer=None, **settings: Any) -> Human:
        """The scripted human of this name, or one that `model` plays."""
        pages = {"renderer": renderer} if self.draws_pages else {}
        if name in self.scripted:
            return self.scripted[name].make(**pages)
        return self.human(model, user_prompt, **pages, **settings)


TASK_TYPES = {
    "code": TaskType(
        environment=CodeCollaboration,
        agent_prompt="code_agent.txt",
        user_prompt="code_user.txt",
        user_prompt_values=llm.PROMPT_VALUES,
        max_chars=400,
        human=LLMHuman,
        agent_prompts={"mini": "mini_agent.txt"},
        scripted={"mini": ScriptedHuman(MiniHuman, check_tasks)},
    ),
    "html": TaskType(
        environment=HtmlCollaboration,
        agent_prompt="html_agent.txt",
        user_prompt="html_user.txt",
        user_prompt_values=vision.PROMPT_VALUES,
        max_chars=1000,
        human=VisionHuman,
        agent_prompts={"mini_html": "mini_agent.txt"},
        scripted={"designer": ScriptedHuman(ScriptedDesigner, check_page_tasks)},
        draws_pages=True,
    ),
}


def task_type(name: str) -> TaskType:
    """The domain of this name. Raises UserError."""
    if name not in TASK_TYPES:
        raise UserError(f"--task_type is {name!r}; it must be one of {', '.join(TASK_TYPES)}.")
    return TASK_TYPES[name]
