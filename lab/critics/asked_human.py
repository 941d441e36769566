"""A human who is asked for replies to candidates, outside of dialogues: settings of a critic, and how it is made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sweet_rl.dialogues import Domain, Human, HumanSettings
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings
from sweet_rl.models.weights import model_input
from sweet_rl.runs.errors import UserError


@dataclass(frozen=True)
class AskedHuman:
    """The human who is asked for replies to candidates; nobody if `env_model` is not given.

    Attributes:
        env_model: Human who is asked: a scripted one of the domain (`mini`) or a model.
        task_type: Domain of the tasks, as in simulate_interactions.py.
        user_prompt_path: Template of a human that a model plays; the domain's by default.
        env: Place where that model runs.
        human: Settings of a human that a model plays.

    Raises:
        UserError: The human looks at pages, which are drawn in dialogues only.
    """

    env_model: str | None = None
    task_type: str = "code"
    user_prompt_path: str | None = None
    env: ModelSettings = field(default_factory=ModelSettings)
    human: HumanSettings = field(default_factory=HumanSettings)

    def __post_init__(self) -> None:
        if self.env_model and self.domain.draws_pages:
            raise UserError(
                f"task_type {self.task_type}: its human looks at pages, which are drawn in dialogues only. Leave out "
                "env_model."
            )

    @property
    def domain(self) -> Domain:
        """The domain of the tasks."""
        return load_domain(self.task_type)

    def make(self) -> Human | None:
        """The human, if one is named. Raises UserError if its model cannot be loaded."""
        if self.env_model is None:
            return None
        model = None if self._scripted else load_model(self.env_model, replace(self.env, tokenizer=None))
        limits = self.domain.limits(self.human)
        return self.domain.make_human(self.env_model, model, self._prompt, **vars(limits))

    def identity(self) -> dict[str, str] | None:
        """Its name and hash, as trajectories carry them; None if nobody is asked."""
        if self.env_model is None:
            return None
        folder = None if self._scripted else model_input(self.env_model)
        limits = self.domain.limits(self.human)
        return self.domain.human_identity(None, self.env_model, self._prompt, limits, self.env.request, folder=folder)

    @property
    def _scripted(self) -> bool:
        return self.env_model in self.domain.scripted_humans

    @property
    def _prompt(self) -> str:
        return "" if self._scripted else self.domain.human_template(self.user_prompt_path)
