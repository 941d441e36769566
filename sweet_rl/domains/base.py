"""What a domain is: the protocol `Environment`, the general `AnswerEnvironment`, and the dataclass `Domain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sweet_rl.domains.grader import Grader
from sweet_rl.domains.human import Human, HumanSettings
from sweet_rl.domains.llm_human import PROMPT_VALUES, LLMHuman
from sweet_rl.errors import UserError
from sweet_rl.models.base import ChatModel, Completion, Message
from sweet_rl.models.thinking import without_thinking
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.records import Task, content_id
from sweet_rl.runs.manifest import hash_input

ANSWER_MARKER = "I WANT TO ANSWER:"
TASK_VALUE = "problem_description"


class Environment(Protocol):
    """One dialogue about one task. It holds state and rules and calls no model.

    The dialogue only ever grows at its end, so that the prompt of a turn is the beginning of the next turn's prompt.

    Attributes:
        dialogue: all messages so far, {role, content, ...}. The first one holds the agent's instructions with the task.
        ending: None while the dialogue goes on, then "answered" or "turn_limit".
        answer: the text that is graded; None if the agent gave no answer.
        over: whether the dialogue has ended.
        turns: number of messages of the agent so far.
    """

    dialogue: list[Message]
    ending: str | None
    answer: str | None

    @property
    def over(self) -> bool: ...

    @property
    def turns(self) -> int: ...

    def observe(self) -> list[Message]:
        """The messages that the agent sees before its next turn: o_t in section 3 of the paper."""
        ...

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Take the agent's message; `prompt_text` is the prompt that it was sampled from, if it is known."""
        ...

    def add_human_reply(self, text: str) -> None:
        """Take the human's reply."""
        ...


class AnswerEnvironment:
    """An environment that ends when the agent writes `I WANT TO ANSWER:`, or after `max_turns` messages of the agent.

    A domain with other rules inherits from it: `read_answer` for another form of the answer, `step` or
    `add_human_reply` for another ending. The attributes are those of `Environment`. A dialogue that ends at the turn
    limit has no answer: its last message is never graded as if it were one.

    Args:
        task: what the dialogue is about.
        agent_prompt: template of the first message, with {problem_description} and, if wanted, {max_turns}.
        max_turns: number of messages that the agent may write.
    """

    def __init__(self, task: Task, agent_prompt: str, max_turns: int = 10) -> None:
        self.task = task
        self.max_turns = max_turns
        self.ending: str | None = None
        self.answer: str | None = None
        opening = fill(agent_prompt, problem_description=task.problem_description, max_turns=max_turns)
        self.dialogue: list[Message] = [{"role": "user", "content": opening}]

    @property
    def over(self) -> bool:
        return self.ending is not None

    @property
    def turns(self) -> int:
        return sum(message["role"] == "assistant" for message in self.dialogue)

    def observe(self) -> list[Message]:
        return list(self.dialogue)

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Take the agent's message. Raises ValueError if the dialogue has ended.

        `output` keeps all that was sampled; `content`, which the human sees, and the answer are without the reasoning.
        """
        if self.over:
            raise ValueError("this dialogue has ended: it takes no message of the agent.")
        spoken = without_thinking(completion.text, prompt_text)
        message: dict[str, Any] = {"role": "assistant", "content": spoken}
        if prompt_text is not None:
            message["input"] = prompt_text
        message["output"] = completion.text
        if completion.token_ids is not None:
            message["token_ids"] = completion.token_ids
        message["finish_reason"] = completion.finish_reason
        self.dialogue.append(message)
        _, marker, answer = spoken.partition(ANSWER_MARKER)
        if marker:
            self.ending, self.answer = "answered", self.read_answer(answer.strip())
        elif self.turns >= self.max_turns:
            self.ending = "turn_limit"

    def read_answer(self, text: str) -> str:
        """The answer in `text`, which is all that follows the first marker in the agent's last message."""
        return text

    def add_human_reply(self, text: str) -> None:
        """Take the human's reply. Raises ValueError if it is not the human's turn."""
        if self.over or self.dialogue[-1]["role"] != "assistant":
            raise ValueError("the human replies only to a message of the agent that did not end the dialogue.")
        self.dialogue.append({"role": "user", "content": text})


@dataclass(frozen=True)
class ScriptedHuman:
    """A human that needs no model.

    Attributes:
        make: makes the human: `make()`, or `make(renderer=PageRenderer)` in a domain that draws pages.
        check_tasks: `check_tasks(tasks, path)` raises UserError if the human cannot play a task of the file `path`.
        revision: raised whenever the human's replies change: then its figures are those of another human.
    """

    make: Callable[..., Human]
    check_tasks: Callable[[Sequence[Task], str], None] | None = None
    revision: int = 1


@dataclass(frozen=True)
class Domain:
    """Everything that the scripts need to know about a domain. `--task_type` names one.

    Attributes:
        name: name of the domain in manifests.
        grader: makes the grader: `grader(settings)`. The settings are the grading flags of evaluate_code.py
            (`environments.backend.CodeGrading`) or, in a domain that draws pages, of evaluate_html.py
            (`environments.frontend.PageGrading`). A grader may ignore them.
        environment: makes the environment of a task: `environment(task, agent_prompt=text, max_turns=number)`.
        agent_prompt: the agent's instructions: a text with {problem_description} (and {max_turns}), or the name of a
            template in sweet_rl/prompts.
        agent_prompts: instructions for agents that need their own, by `--agent_model`.
        human: makes the human that a model plays: `human(model, human_prompt, max_chars=, retry_leaks=, temperature=,
            max_tokens=)`, and `renderer=` in a domain that draws pages.
        human_prompt: instructions of that human, in the same form; None if only scripted humans play.
        human_prompt_values: the names in braces that `human_prompt` has to contain.
        max_reply_chars: length at which the human's replies are cut (the paper, table 5: 400 backend, 1,000 frontend).
        scripted_humans: humans without a model, by `--env_model`.
        label_turn: `label_turn(task, messages_before, text)` returns a word that judges a turn of the agent by what the
            task hides, or None. It is recorded as `oracle` in the message; no agent, human or critic sees it.
        claimed_solution: `claimed_solution(task, messages_before, reply)` returns the reference solution as it would be
            if the human's reply were true, or None. The grader compares it with the reference (measure_humans.py).
        check_tasks: `check_tasks(tasks, path)` raises UserError if the file `path` holds tasks of another domain.
        draws_pages: whether the human and the grader look at pictures of pages. A model that plays the human then has
            to see pictures.
        min_gap: the difference between two rewards from which on their dialogues make a pair. None: only a reward of
            1 is preferred, to any lower one (the paper, section 4).
        source: the file that the domain was read from; None for the package's own.
    """

    name: str
    grader: Callable[[Any], Grader]
    environment: Callable[..., Environment] = AnswerEnvironment
    agent_prompt: str = f"{{{TASK_VALUE}}}"
    agent_prompts: Mapping[str, str] = field(default_factory=dict)
    human: Callable[..., Human] = LLMHuman
    human_prompt: str | None = None
    human_prompt_values: Sequence[str] = PROMPT_VALUES
    max_reply_chars: int = 400
    scripted_humans: Mapping[str, ScriptedHuman] = field(default_factory=dict)
    label_turn: Callable[[Task, list[Message], str], str | None] | None = None
    claimed_solution: Callable[[Task, list[Message], str], str | None] | None = None
    check_tasks: Callable[[Sequence[Task], str], None] | None = None
    draws_pages: bool = False
    min_gap: float | None = None
    source: Path | None = None

    def agent_template(self, agent_model: str = "", path: str | None = None) -> str:
        """The agent's instructions: those at `path` if it is given, else those of the domain for this agent.

        Raises:
            UserError: there is no such file, or it does not contain {problem_description}.
        """
        return _template(path or self.agent_prompts.get(agent_model, self.agent_prompt), [TASK_VALUE], ["max_turns"])

    def human_template(self, path: str | None = None) -> str:
        """The instructions of a human that a model plays; likewise. Raises UserError also if there are none."""
        prompt = path or self.human_prompt
        if prompt is None:
            scripted = " or ".join(f"--env_model {name}" for name in self.scripted_humans)
            raise UserError(
                f"the domain {self.name!r} has no instructions for a human that a model plays: give "
                f"--user_prompt_path{f', or a scripted human: {scripted}' if scripted else ''}."
            )
        return _template(prompt, self.human_prompt_values, [])

    def begin(self, agent_prompt: str, max_turns: int) -> Callable[[Task], Environment]:
        """A function that makes the environment of a task."""
        return partial(self.environment, agent_prompt=agent_prompt, max_turns=max_turns)

    def make_human(
        self, name: str, model: ChatModel | None = None, human_prompt: str = "", renderer: Any = None, **settings: Any
    ) -> Human:
        """The scripted human called `name`, or else a human that `model` plays with `settings`."""
        pages = {"renderer": renderer} if self.draws_pages else {}
        if name in self.scripted_humans:
            return self.scripted_humans[name].make(**pages)
        return self.human(model, human_prompt, **pages, **settings)

    def limits(self, human: HumanSettings) -> HumanSettings:
        """The settings with the length of replies in this domain, if they have none."""
        return replace(human, max_chars=human.max_chars or self.max_reply_chars)

    def human_identity(
        self,
        name: str | None,
        model: str,
        human_prompt: str = "",
        human: HumanSettings | None = None,
        request: dict | None = None,
        window: dict | None = None,
        folder: str | None = None,
    ) -> dict[str, str]:
        """Which human replied in a dialogue. Figures of different humans cannot be compared.

        Args:
            name: default: the script's name, or the last part of the model's.
            model: the scripted human, or the model that plays it; without a script the other arguments matter.
            human_prompt: the instructions.
            human: how the model plays the human.
            request: fields of the requests to the model's server.
            window: what the human's view of a page depends on, in a domain that draws pages.
            folder: folder of the model, whose content is hashed instead of the name; None if it is not on this disk.

        Returns:
            The field `human` of a trajectory: `name` for people, two humans may have the same; `hash`, 16 hex digits of
            all that the replies depend on.
        """
        facts: dict[str, Any] = {"source": None if self.source is None else hash_input(self.source)}
        if model in self.scripted_humans:
            facts |= {"script": model, "revision": self.scripted_humans[model].revision}
        else:
            facts |= {"model": model if folder is None else hash_input(folder), "prompt": human_prompt}
            facts |= {"request": request, **vars(self.limits(human or HumanSettings())), **(window or {})}
        return {"name": name or Path(model).name, "hash": content_id(facts)}

    def check(self, tasks: Sequence[Task], path: str, human: str | None = None) -> None:
        """Check the tasks of the file `path`, also for the scripted human `human`. Raises UserError."""
        scripted = self.scripted_humans.get(human)
        for check in (self.check_tasks, scripted and scripted.check_tasks):
            if check is not None:
                check(tasks, path)


def _template(prompt: str, needed: Sequence[str], known: Sequence[str]) -> str:
    """The template itself if `prompt` is one, else the content of the file of this name."""
    return prompt if f"{{{TASK_VALUE}}}" in prompt else load_prompt(prompt, needed, known)
