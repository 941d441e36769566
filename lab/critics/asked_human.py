"""A human who is asked for single replies, outside of dialogues: the flags that name one, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sweet_rl.domains import Domain, Human, HumanSettings
from sweet_rl.errors import UserError
from sweet_rl.model_loading import model_input
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings
from sweet_rl.records import Task


@dataclass(frozen=True)
class AskedSettings:
    """The human who is asked for replies to candidates.

    Attributes:
        env_model: For --reply: the human who is asked, a scripted one of the domain (`mini`) or a model.
        task_type: For --reply: the domain of the tasks, as in simulate_interactions.py.
        user_prompt_path: For --reply: template of a human that a model plays; the domain's by default.
    """

    env_model: str | None = None
    task_type: str = "code"
    user_prompt_path: str | None = None

    def human(
        self, load_domain: Callable[[str], Domain], model: ModelSettings, settings: HumanSettings
    ) -> AskedHuman | None:
        """The human, of an `AskedHuman`'s `load_domain`, `model` and `settings`; None if none is named."""
        return AskedHuman(load_domain, self, model, settings) if self.env_model else None


@dataclass(frozen=True)
class AskedHuman:
    """Names a human, so that each process can make its own.

    Attributes:
        load_domain: `load_domain(task_type)` is the domain.
        asked: the human and its domain; `env_model` is given.
        model: where that model runs.
        settings: how it plays the human.

    Raises:
        UserError: the human looks at pages, which are drawn in dialogues only.
    """

    load_domain: Callable[[str], Domain]
    asked: AskedSettings
    model: ModelSettings = field(default_factory=ModelSettings)
    settings: HumanSettings = field(default_factory=HumanSettings)

    def __post_init__(self) -> None:
        if self._domain.draws_pages:
            raise UserError(
                f"--task_type {self.asked.task_type}: its human looks at pages, which are drawn in dialogues only. "
                "Leave out --reply and --env_model."
            )

    def make(self) -> Human:
        """The human. Raises UserError if its model cannot be loaded."""
        model = None
        if not self._scripted:
            model = load_model(self.asked.env_model, replace(self.model, tokenizer=None))
        limits = self._domain.limits(self.settings)
        return self._domain.make_human(self.asked.env_model, model, self._prompt, **vars(limits))

    def identity(self) -> dict[str, str]:
        """Its name and hash, as trajectories carry them."""
        folder = None if self._scripted else model_input(self.asked.env_model)
        limits = self._domain.limits(self.settings)
        return self._domain.human_identity(
            None, self.asked.env_model, self._prompt, limits, self.model.request, folder=folder
        )

    def check(self, tasks: Sequence[Task], path: str) -> None:
        """Raise UserError if the file `path` holds a task that this human cannot play."""
        self._domain.check(tasks, path, self.asked.env_model)

    @property
    def _domain(self) -> Domain:
        return self.load_domain(self.asked.task_type)

    @property
    def _scripted(self) -> bool:
        return self.asked.env_model in self._domain.scripted_humans

    @property
    def _prompt(self) -> str:
        return "" if self._scripted else self._domain.human_template(self.asked.user_prompt_path)
