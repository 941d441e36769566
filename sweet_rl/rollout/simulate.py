"""Step 1: dialogues between the agent and the human about the tasks of a file, as trajectories."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from sweet_rl.cli import UNRECORDED, print_summary, to_settings
from sweet_rl.domains import Domain, HumanSettings
from sweet_rl.errors import NothingMade, UserError
from sweet_rl.model_loading import model_input
from sweet_rl.models import CallSettings, ChatModel, ModelSettings, Sampling, load_model
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import on_server
from sweet_rl.models.prefixed import PrefixedModel
from sweet_rl.records import Task, hash_rows, read_records, without_excluded
from sweet_rl.rendering.renderer import BrowserSettings
from sweet_rl.rollout.collect import CollectionSettings, collect
from sweet_rl.rollout.estimate import estimate
from sweet_rl.rollout.play import CandidateSelector, DialogueSetup, trajectory_id
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.shards import shard_of
from sweet_rl.runs.step import StepSettings, run_step

PICTURES_KEPT = 1024  # because a reference page would otherwise be drawn again at every turn


@dataclass(frozen=True)
class PlayerSettings:
    """Who plays: the agent, the human, and what they are told.

    Attributes:
        agent_model: Agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        env_model: Human: a model as above, or a script of the domain (`mini`, which knows the tasks of
            make_mini_tasks.py only; `designer` for html).
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
        if self.collection.record_logprobs:
            _check_on_policy(self.sampling, self.players.agent_prefix)
        scripts, name = self.domain.scripted_humans, self.players.env_model
        if self.domain.draws_pages and not self.scripted and not self.env.hostname and self.env.engine != "openai":
            raise UserError(
                f"--env_model {name} plays a human who sees pictures, which only a server shows it: give --hostname, "
                f"the server of a vision model{''.join(f', or --env_model {script}' for script in scripts)}."
            )

    @property
    def scripted(self) -> bool:
        """Whether the human is a script, which needs no model."""
        return self.players.env_model in self.domain.scripted_humans

    def run(
        self, input_path: str, output_path: str, step: StepSettings, cache: CallCache | None = None
    ) -> dict[str, Any]:
        """Play the dialogues of a file of tasks. A killed run continues with the same call.

        Args:
            input_path: Tasks.
            output_path: Trajectories.
            step: Shard, and whether an older output is replaced.
            cache: Open cache to use in place of that of `calls`, for runs that share a limit of calls.

        Returns:
            The summary of `collect`.

        Raises:
            UserError: Before anything is written, or because no dialogue can work.
        """
        domain, players, collection = self.domain, self.players, self.collection
        tasks = without_excluded(read_records(input_path, Task, limit=collection.num_tasks), collection.exclude)
        domain.check(tasks, input_path, players.env_model)
        jobs = shard_of(collection.jobs(tasks), step.shard)
        human = domain.limits(self.human)
        agent_prompt = domain.agent_template(players.agent_model, players.agent_prompt_path)
        human_prompt = "" if self.scripted else domain.human_template(players.user_prompt_path)
        window = to_settings(self.pages) if domain.draws_pages else {}
        folder = None if self.scripted else model_input(players.env_model)
        identity = domain.human_identity(
            players.human_name, players.env_model, human_prompt, human, self.env.request, window, folder
        )
        settings = to_settings(
            players,
            collection,
            step,
            sampling=self.sampling,
            agent=self.agent,
            pages=window,
            task_type=domain.name,
            agent_prompt=hash_rows([agent_prompt])[:16],
            human=identity,
            critic=self.selector and self.selector.settings,
        )
        if not self.scripted:
            settings |= to_settings(env=self.env, human_replies=human, user_prompt=hash_rows([human_prompt])[:16])
        inputs = [input_path, collection.exclude, model_input(players.agent_model), domain.source, folder]
        inputs += self.selector.inputs if self.selector else []
        check_paths([output_path], inputs, [self.calls.cache])
        drop = _failed if collection.retry_failed else None
        output = open_run(output_path, settings, inputs, step.overwrite, drop)

        paid = {"agent": agent_prompt} if on_server(self.agent) else {}
        if not self.scripted and on_server(self.env):
            paid["human"] = human_prompt

        async def play(run: Run) -> dict[str, Any]:
            missing = [task for task, sample in jobs if trajectory_id(task, sample) not in run.done]
            if paid and missing:
                print(estimate(missing, collection.max_turns, paid, self.sampling.n), flush=True)
                if not self.calls.cache:
                    print("without --cache a run that is stopped loses the calls of its dialogues in progress")
            with contextlib.ExitStack() as resources:
                agent, human_model = self._models(resources, cache)
                renderer = None
                if domain.draws_pages:
                    renderer = resources.enter_context(self.pages.renderer(cache=PICTURES_KEPT))
                player = domain.make_human(players.env_model, human_model, human_prompt, renderer, **vars(human))
                setup = DialogueSetup(
                    PrefixedModel(agent, players.agent_prefix) if players.agent_prefix else agent,
                    player,
                    domain.begin(agent_prompt, collection.max_turns),
                    replace(self.sampling, seed=collection.seed),
                    None if self.selector is None else self.selector.load(),
                    domain.label_turn,
                    identity,
                    record_logprobs=collection.record_logprobs,
                    source=domain.source,
                )
                if human_model is None:
                    named = {"agent": agent}
                elif human_model is agent:
                    named = {"agent and human": agent}
                else:
                    named = {"agent": agent, "human": human_model}
                summary = await collect(run, jobs, setup, collection.concurrency, named)
            if set(summary["endings"]) == {"failed"}:
                print_summary(summary)
                raise NothingMade(
                    f"{output_path}: all {summary['dialogues']} dialogues failed, for the reasons above. Mend these, "
                    f"then give the same command with {self._again}."
                )
            return summary

        return run_step(output, play, self._show, may_be_empty=not jobs)  # with more shards than dialogues

    @property
    def _again(self) -> str:
        """The flag that plays failed dialogues again."""
        source = self.domain.source
        return "--retry_failed" if source is None else f"--retry_failed, or --overwrite after an edit of {source.name}"

    def _show(self, summary: dict[str, Any]) -> None:
        print_summary(summary)
        if failed := summary.get("endings", {}).get("failed"):
            print(f"{failed} dialogues failed and are excluded; the same command with {self._again} plays them again.")

    def _models(self, resources: contextlib.ExitStack, cache: CallCache | None) -> tuple[ChatModel, ChatModel | None]:
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
        return agent, load_model(self.players.env_model, env, self.calls, cache)


def _check_on_policy(sampling: Sampling, agent_prefix: str | None) -> None:
    """Raise UserError unless what is sampled and played is the policy's own distribution."""
    changed = [
        name
        for name, differs in {
            "--temperature": sampling.temperature != 1,
            "--top_p": sampling.top_p != 1,
            "--candidates": sampling.n > 1,
            "--agent_prefix": bool(agent_prefix),
        }.items()
        if differs
    ]
    if changed:
        raise UserError(
            f"--record_logprobs is for policy gradients, which need dialogues of the policy itself; {changed[0]} "
            "samples from another distribution. Leave one of the two out."
        )


def _failed(row: dict) -> bool:
    return row.get("ending") == "failed"
