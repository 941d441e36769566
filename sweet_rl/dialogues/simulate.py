"""Step 1: dialogues between the agent and the human about the tasks of a file, as trajectories."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from sweet_rl.dialogues.collect import CollectionSettings, Job, collect
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.estimate import estimate
from sweet_rl.dialogues.mini.domain import AGENTS, foreign_tasks
from sweet_rl.dialogues.play import CandidateSelector, DialogueSetup, trajectory_id
from sweet_rl.dialogues.released.departures import departures
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.dialogues.trained_on import other_protocol
from sweet_rl.isolation.rendering.settings import BrowserSettings
from sweet_rl.models.base import ChatModel, Sampling
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import load_model, on_server
from sweet_rl.models.prefixed import PrefixedModel
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import UNRECORDED, print_summary, to_settings
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import RELEASED, Task, hash_rows, read_records, without_excluded
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, run_step, shard_of

logger = logging.getLogger(__name__)
PICTURES_KEPT = 1024  # because a reference page would otherwise be drawn again at every turn


@dataclass(frozen=True)
class PlayerSettings:
    """Who plays: the agent, the human, and what they are told.

    Attributes:
        agent_model: Agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        env_model: Human: a model as above, or a script of the domain (`mini`, which knows the tasks of
            make_mini_tasks.py only).
        agent_prompt_path: Template with {problem_description} and, if wanted, {max_turns}; the domain's by default.
        user_prompt_path: Template of a human that a model plays; the domain's by default.
        agent_prefix: Text that each of the agent's replies begins with (to answer immediately: 'I WANT TO ANSWER:').
        human_name: Name of the human in rows and tables; by default that of its model or script.
    """

    agent_model: str
    env_model: str
    agent_prompt_path: Annotated[str | None, UNRECORDED] = None  # the template's hash is recorded
    user_prompt_path: Annotated[str | None, UNRECORDED] = None  # the template's hash is recorded
    agent_prefix: str | None = None
    human_name: Annotated[str | None, UNRECORDED] = None  # a part of the human's identity, which is recorded


@dataclass(frozen=True)
class SelectorSettings:
    """A selector of candidates, which is loaded when the dialogues begin.

    Attributes:
        settings: What its choice depends on, for the manifest.
        inputs: Files and folders that it reads.
        load: Function that returns the selector.
    """

    settings: dict[str, Any]
    inputs: Sequence[str | None]
    load: Callable[[], CandidateSelector]


@dataclass(frozen=True)
class Simulation:
    """Everything that dialogues depend on, but the tasks.

    Attributes:
        domain: Domain of the tasks.
        players: The agent and the human.
        collection: Which dialogues are played.
        sampling: How the agent's messages are sampled; `n` is the number of candidates per turn.
        agent: Where the agent's model runs.
        env: Where the human's model runs.
        calls: How models are called.
        human: How a model plays the human.
        pages: How pages are drawn, in a domain that draws pages.
        selector: Selector of one of several candidates.

    Raises:
        UserError: Two settings contradict each other.
    """

    domain: Domain
    players: PlayerSettings
    collection: CollectionSettings
    sampling: Sampling
    agent: ModelSettings
    env: ModelSettings
    calls: CallSettings
    human: HumanSettings
    pages: BrowserSettings
    selector: SelectorSettings | None = None

    def __post_init__(self) -> None:
        scripts, name = self.domain.scripted_humans, self.players.env_model
        if name in AGENTS and not self.scripted and not on_server(self.env):
            raise UserError(f"--env_model {name} is a packaged agent, which can play no human. {self._humans}")
        if self.domain.draws_pages and not self.scripted and not self.env.hostname and self.env.engine != "openai":
            raise UserError(
                f"--env_model {name} plays a human who sees pictures, which only a server shows it: give --hostname, "
                f"the server of a vision model{''.join(f', or --env_model {script}' for script in scripts)}."
            )

    @property
    def scripted(self) -> bool:
        """Whether the human is a script, which needs no model."""
        return self.players.env_model in self.domain.scripted_humans

    @cached_property
    def agent_prompt(self) -> str:
        """The agent's instructions. Raises UserError if their file cannot be used."""
        return self.domain.agent_template(self.players.agent_model, self.players.agent_prompt_path)

    @cached_property
    def human_prompt(self) -> str:
        """The instructions of a human that a model plays. Raises UserError if their file cannot be used."""
        return "" if self.scripted else self.domain.human_template(self.players.user_prompt_path)

    @cached_property
    def human_identity(self) -> dict[str, str]:
        """Which human replies (`Domain.human_identity`)."""
        players, human = self.players, self.domain.limits(self.human)
        return self.domain.human_identity(
            players.human_name,
            players.env_model,
            self.human_prompt,
            human,
            self.env.request,
            self._window,
            self._folder,
        )

    def run(
        self, input_path: str, output_path: str, step: StepSettings, cache: CallCache | None = None
    ) -> dict[str, Any]:
        """Play the dialogues of a file of tasks. A killed run continues with the same call.

        Args:
            input_path: Tasks.
            output_path: Trajectories.
            step: Shard, and whether an older output is replaced.
            cache: Open cache to use in place of that of `calls`, for runs that share a limit of calls. Their cost is
                not printed.

        Returns:
            The summary of `collect`.

        Raises:
            UserError: Before anything is written, or because no dialogue can work.
        """
        collection = self.collection
        tasks = without_excluded(read_records(input_path, Task, limit=collection.num_tasks), collection.exclude)
        self.domain.check(tasks, input_path, self.players.env_model)
        if not on_server(self.agent) and (note := foreign_tasks(self.players.agent_model, tasks)):
            logger.warning("%s", note)
        jobs = shard_of(collection.jobs(tasks), step.shard)
        output = self._open(input_path, output_path, step)
        self._print_protocol()

        async def play(run: Run) -> dict[str, Any]:
            summary = await self._play(run, jobs, cache)
            if set(summary["endings"]) == {"failed"}:
                print_summary(summary)
                raise NothingMade(
                    f"{output_path}: all {summary['dialogues']} dialogues failed, for the reasons above. Mend these, "
                    f"then give the same command with {self._again}."
                )
            if summary["dialogues_too_long_for_the_agent"] == summary["turns"] == summary["dialogues"] > 0:
                print_summary(summary)
                raise NothingMade(
                    f"{output_path}: no task fits the agent's context together with --max_tokens "
                    f"{self.sampling.max_tokens}. Give the agent a longer context, or fewer tokens, and --overwrite."
                )
            return summary

        return run_step(output, play, self._show, may_be_empty=not jobs)  # with more shards than dialogues

    def _print_protocol(self) -> None:
        """Print what makes the figures of these dialogues incomparable, if anything does."""
        domain = self.domain
        if note := other_protocol(self.players.agent_model, domain.protocol):
            print(note, flush=True)
        if domain.protocol == RELEASED:
            found = list(departures(domain, self.collection.max_turns, self.sampling, self.human))
            found += [f"--agent_prefix {self.players.agent_prefix!r} (none)"] if self.players.agent_prefix else []
            if found:
                print(f"not as published, so not to be compared with published figures: {', '.join(found)}", flush=True)

    def _open(self, input_path: str, output_path: str, step: StepSettings) -> Run:
        """Open the output with everything that the dialogues depend on."""
        domain, collection = self.domain, self.collection
        settings = to_settings(
            self.players,
            collection,
            step,
            sampling=self.sampling,
            agent=self.agent,
            pages=self._window,
            task_type=domain.name,
            protocol=domain.protocol,
            agent_prompt=hash_rows([self.agent_prompt])[:16],
            human=self.human_identity,
            critic=self.selector and self.selector.settings,
        )
        if not self.scripted:
            prompt = hash_rows([self.human_prompt])[:16]
            settings |= to_settings(env=self.env, human_replies=domain.limits(self.human), user_prompt=prompt)
        inputs = [input_path, collection.exclude, model_input(self.players.agent_model), domain.source, self._folder]
        inputs += self.selector.inputs if self.selector else []
        check_paths([output_path], inputs)
        drop = _failed if collection.retry_failed else None
        return open_run(output_path, settings, inputs, step.overwrite, drop)

    async def _play(self, run: Run, jobs: Sequence[Job], cache: CallCache | None) -> dict[str, Any]:
        """Play the jobs that the run lacks; return the summary of `collect`."""
        if cache is None:
            self._print_estimate([task for task, sample in jobs if trajectory_id(task, sample) not in run.done])
        with contextlib.ExitStack() as resources:
            agent, human_model = self.models(resources, cache)
            setup = self.setup(resources, agent, human_model)
            if human_model is None:
                named = {"agent": agent}
            elif human_model is agent:
                named = {"agent and human": agent}
            else:
                named = {"agent": agent, "human": human_model}
            return await collect(run, jobs, setup, self.collection.concurrency, named)

    def setup(self, resources: contextlib.ExitStack, agent: ChatModel, human_model: ChatModel | None) -> DialogueSetup:
        """The two sides and the rules of the dialogues.

        Args:
            resources: Stack that closes the browsers, in a domain that draws pages.
            agent: The agent's model.
            human_model: The human's model; None for a scripted human.
        """
        domain, players, renderer = self.domain, self.players, None
        if domain.draws_pages:
            from sweet_rl.isolation.rendering.renderer import PageRenderer

            renderer = PageRenderer.from_settings(self.pages, cache=PICTURES_KEPT)
            resources.enter_context(renderer)
        human = vars(domain.limits(self.human))
        return DialogueSetup(
            PrefixedModel(agent, players.agent_prefix) if players.agent_prefix else agent,
            domain.make_human(players.env_model, human_model, self.human_prompt, renderer, **human),
            domain.begin(self.agent_prompt, self.collection.max_turns),
            replace(self.sampling, seed=self.collection.seed),
            None if self.selector is None else self.selector.load(),
            domain.label_turn,
            self.human_identity,
            source=domain.source,
            protocol=domain.protocol,
        )

    def paid_prompts(self) -> dict[str, str]:
        """The instructions of each side whose model is on a server."""
        paid = {"agent": self.agent_prompt} if on_server(self.agent) else {}
        if not self.scripted and on_server(self.env):
            paid["human"] = self.human_prompt
        return paid

    def _print_estimate(self, missing: Sequence[Task]) -> None:
        """Print what the dialogues of these tasks cost at most, if a server is called."""
        paid, pages = self.paid_prompts(), self.domain.draws_pages
        if paid and missing:
            print(estimate(missing, self.collection.max_turns, paid, self.sampling.n, pages), flush=True)
            if not self.calls.cache:
                print("without --cache a run that is stopped loses the calls of its dialogues in progress")

    @property
    def _window(self) -> dict[str, Any]:
        """What a page's picture depends on; empty in a domain that draws none."""
        return to_settings(self.pages) if self.domain.draws_pages else {}

    @property
    def _folder(self) -> str | None:
        """The folder of the model that plays the human, if it is on this disk."""
        return None if self.scripted else model_input(self.players.env_model)

    @property
    def _again(self) -> str:
        """The flag that plays failed dialogues again."""
        source = self.domain.source
        return "--retry_failed" if source is None else f"--retry_failed, or --overwrite after an edit of {source.name}"

    @property
    def _humans(self) -> str:
        """Who can play the human of the domain."""
        domain = self.domain
        scripts = " or ".join(f"--env_model {name}" for name in domain.scripted_humans)
        if scripts:
            return f"The domain {domain.name!r} has a human of its own: {scripts}."
        here = "" if domain.source is None else f" (scripted_humans of the DOMAIN in {domain.source.name})"
        return f"The domain {domain.name!r} has no human without a model{here}: name a chat model as --env_model."

    def _show(self, summary: dict[str, Any]) -> None:
        print_summary(summary)
        if failed := summary.get("endings", {}).get("failed"):
            print(f"{failed} dialogues failed and are excluded; the same command with {self._again} plays them again.")

    def models(self, resources: contextlib.ExitStack, cache: CallCache | None) -> tuple[ChatModel, ChatModel | None]:
        """The models of agent and human, the same one if their settings are equal; None for a scripted human."""
        if cache is None and self.calls.cache:
            cache = CallCache(self.calls.cache, self.calls.max_calls)
            resources.callback(cache.close)
        agent = load_model(self.players.agent_model, self.agent, self.calls, cache)
        if self.scripted:
            return agent, None
        env = replace(self.env, tokenizer=None)  # the human is asked with messages
        one_name = self.players.agent_model == self.players.env_model
        if one_name and replace(self.agent, tokenizer=None) == env and not self.domain.draws_pages:
            return agent, agent
        try:
            return agent, load_model(self.players.env_model, env, self.calls, cache)
        except UserError as error:
            raise UserError(f"--env_model {error} {self._humans}") from error


def _failed(row: dict) -> bool:
    return row.get("ending") == "failed"
