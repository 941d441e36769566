"""Step 1: dialogues between the agent and the human about the tasks of a file, as trajectories."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Annotated, Any, NamedTuple

from tqdm.contrib.logging import logging_redirect_tqdm

from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.play import OUTGROWN, DialogueSetup, play_all, trajectory_id
from sweet_rl.dialogues.released import differences_from_published
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.models.base import ChatModel, Sampling
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import load_model, on_server
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.weights import model_input
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import UNRECORDED, print_summary, to_settings
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import RELEASED, Task, hash_rows, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, shard_of

Job = tuple[Task, int]  # a task and the number of its sample
PICTURES_KEPT = 1024  # because a reference page would otherwise be drawn again at every turn
CHARS_PER_TOKEN, TOKENS_PER_MESSAGE, TOKENS_PER_PICTURE = 4, 100, 1200


@dataclass(frozen=True)
class PlayerSettings:
    """Who plays: the agent, the human, and what they are told.

    Attributes:
        agent_model: Agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        env_model: Human: a model as above, or a script of the domain (`mini`, which knows the tasks of
            make_mini_tasks.py only).
        agent_prompt_path: Template with {problem_description} and, if wanted, {max_turns}; the domain's by default.
        user_prompt_path: Template of a human that a model plays; the domain's by default.
        human_name: Name of the human in rows and tables; by default that of its model or script.
    """

    agent_model: str
    env_model: str
    agent_prompt_path: Annotated[str | None, UNRECORDED] = None  # the template's hash is recorded
    user_prompt_path: Annotated[str | None, UNRECORDED] = None  # the template's hash is recorded
    human_name: Annotated[str | None, UNRECORDED] = None  # a part of the human's identity, which is recorded


@dataclass(frozen=True)
class CollectionSettings:
    """Which dialogues are played, and how long they are.

    Attributes:
        num_tasks: Number of tasks that are played, from the start of the file; all by default.
        dialogues_per_task: Number of dialogues per task.
        max_turns: Largest number of messages of the agent in one dialogue.
        retry_failed: Play the dialogues again that are recorded as failed.
        seed: Random seed of the dialogues.
        concurrency: Largest number of dialogues in progress.
    """

    num_tasks: int | None = None
    dialogues_per_task: int = 1
    max_turns: int = 10
    retry_failed: Annotated[bool, UNRECORDED] = False
    seed: int = 0
    concurrency: Annotated[int, UNRECORDED] = 256

    def __post_init__(self) -> None:
        for name in ("num_tasks", "dialogues_per_task", "max_turns", "concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} is {value}; it must be at least 1.")

    def jobs(self, tasks: Sequence[Task]) -> list[Job]:
        """The dialogues of these tasks."""
        return [(task, sample) for task in tasks for sample in range(self.dialogues_per_task)]


class SelectorSettings(NamedTuple):
    """A selector of candidates: what its choice depends on, the files that it reads, and a function that loads it."""

    settings: dict[str, Any]
    inputs: Sequence[str | None]
    load: Callable[[], Any]


@dataclass(frozen=True)
class Simulation:
    """Everything that dialogues depend on, but the tasks. `agent` and `env` say where the two models run.

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
        if self.domain.draws_pages and not self.scripted and not self.env.hostname and self.env.engine != "openai":
            raise UserError(
                f"--env_model {self.players.env_model} plays a human who sees pictures, which only a server shows it: "
                "give --hostname, the server of a vision model."
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
        name, model = self.players.human_name, self.players.env_model
        return self.domain.human_identity(
            name, model, self.human_prompt, self.human, self.env.request, self._window, self._folder
        )

    def run(
        self, input_path: str, output_path: str, step: StepSettings, cache: CallCache | None = None
    ) -> dict[str, Any]:
        """Play the dialogues of a file of tasks. A killed run continues with the same call.

        Args:
            input_path: Tasks.
            output_path: Trajectories.
            step: Shard, and whether an older output is replaced.
            cache: Open cache to use in place of that of `calls`. The cost is then not printed.

        Returns:
            The summary of `summarise_dialogues`.

        Raises:
            UserError: Before anything is written, or because no dialogue can work.
        """
        collection = self.collection
        tasks = read_records(input_path, Task, limit=collection.num_tasks)
        self.domain.check(tasks, input_path)
        jobs = shard_of(collection.jobs(tasks), step.shard)
        with self._open(input_path, output_path, step) as run:
            self._print_protocol()
            if run.finished:
                return run.show(_show)
            summary = asyncio.run(self._play(run, jobs, cache))
            if set(summary["endings"]) == {"failed"}:
                print_summary(summary)
                raise NothingMade(
                    f"{output_path}: all {summary['dialogues']} dialogues failed, for the reasons above. Mend these, "
                    "then give the same command with --retry_failed."
                )
            return run.finish(summary, _show, may_be_empty=not jobs)  # with more shards than dialogues

    def _print_protocol(self) -> None:
        """Print what makes the figures of these dialogues incomparable, if anything does."""
        if self.domain.protocol == RELEASED:
            turns = self.collection.max_turns
            differences = list(differences_from_published(self.domain, turns, self.sampling, self.human))
            if differences:
                print(f"not as published, so not to be compared: {', '.join(differences)}", flush=True)

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
            settings |= to_settings(env=self.env, human_replies=domain.reply_settings(self.human), user_prompt=prompt)
        inputs = [input_path, model_input(self.players.agent_model), domain.source, self._folder]
        inputs += self.selector.inputs if self.selector else []
        check_paths([output_path], inputs)
        drop = _failed if collection.retry_failed else None
        return open_run(output_path, settings, inputs, step.overwrite, drop)

    async def _play(self, run: Run, jobs: Sequence[Job], cache: CallCache | None) -> dict[str, Any]:
        """Play the jobs that the run lacks; in the end its records are in their order. Returns the summary."""
        missing = [(task, sample) for task, sample in jobs if trajectory_id(task, sample) not in run.done]
        if cache is None:
            self._print_estimate([task for task, _ in missing])
        async with contextlib.AsyncExitStack() as resources:
            agent, human_model = self.models(resources, cache)
            models: dict[str, ChatModel] = {"agent and human" if human_model is agent else "agent": agent}
            if human_model is not None and human_model is not agent:
                models["human"] = human_model
            setup = self.setup(resources, agent, human_model)
            for model in models.values():
                await model.check()
            await self._play_missing(run, missing, len(jobs), setup)
        summary = summarise_dialogues(run.records())
        run.sort(trajectory_id(task, sample) for task, sample in jobs)
        for name, model in models.items():
            facts: dict[str, Any] = getattr(model, "summary", dict)()
            summary |= {name: facts} if facts else {}
        return summary

    async def _play_missing(self, run: Run, jobs: Sequence[Job], total: int, setup: DialogueSetup) -> None:
        """Play dialogues and append each to the run when it ends."""
        failed = 0
        with (
            logging_redirect_tqdm(),
            progress_bar(total=total, initial=total - len(jobs), desc="dialogues", unit="dialogue") as bar,
        ):
            async with contextlib.aclosing(play_all(jobs, setup, self.collection.concurrency)) as trajectories:
                async for trajectory in trajectories:
                    run.write(trajectory.to_dict())
                    failed += trajectory.ending == "failed"
                    bar.set_postfix_str(f"failed {failed}", refresh=False)
                    bar.update()

    def setup(
        self, resources: contextlib.AsyncExitStack, agent: ChatModel, human_model: ChatModel | None
    ) -> DialogueSetup:
        """The two sides and the rules of the dialogues. `resources` closes the browsers and the critic."""
        domain, players, renderer, choose = self.domain, self.players, None, None
        if domain.draws_pages:
            from sweet_rl.rendering.renderer import PageRenderer

            renderer = PageRenderer.from_settings(self.pages, cache=PICTURES_KEPT)
            resources.enter_context(renderer)
        if self.selector is not None:
            choose = self.selector.load()
            resources.push_async_callback(choose.close)
        return DialogueSetup(
            agent,
            domain.make_human(players.env_model, human_model, self.human_prompt, self.human, renderer),
            domain.begin(self.agent_prompt, self.collection.max_turns),
            replace(self.sampling, seed=self.collection.seed),
            choose,
            domain.label_turn,
            self.human_identity,
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
        prompts = self.paid_prompts()
        if prompts and missing:
            costs = estimate(missing, self.collection.max_turns, prompts, self.sampling.n, self.domain.draws_pages)
            print("\n".join(f"estimate, {side}: {cost}" for side, cost in costs.items()), flush=True)
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

    def models(
        self, resources: contextlib.AsyncExitStack, cache: CallCache | None
    ) -> tuple[ChatModel, ChatModel | None]:
        """The models of agent and human, the same one if their settings are equal; None for a scripted human."""
        if cache is None and self.calls.cache:
            cache = CallCache(self.calls.cache)
            resources.callback(cache.close)
        agent = load_model(self.players.agent_model, self.agent, self.calls, cache)
        resources.push_async_callback(agent.close)
        if self.scripted:
            return agent, None
        env = replace(self.env, tokenizer=None)  # the human is asked with messages
        one_name = self.players.agent_model == self.players.env_model
        if one_name and replace(self.agent, tokenizer=None) == env and not self.domain.draws_pages:
            return agent, agent
        human = load_model(self.players.env_model, env, self.calls, cache)
        resources.push_async_callback(human.close)
        return agent, human


def _failed(row: dict) -> bool:
    return row.get("ending") == "failed"


def _show(summary: dict[str, Any]) -> None:
    print_summary(summary)
    if failed := summary.get("endings", {}).get("failed"):
        print(f"{failed} dialogues failed and are excluded; the same command with --retry_failed plays them again.")
    if outgrown := summary.get("dialogues_too_long_for_the_agent"):
        print(
            f"{outgrown} dialogues had no room for --max_tokens in the agent's context: give it a longer one, or fewer."
        )


class Cost(NamedTuple):
    """Calls of one side, and the tokens that they read and write."""

    calls: int
    read: int
    written: int

    def __str__(self) -> str:
        return f"at most {self.calls:,} calls, which read {self.read:,} tokens and write {self.written:,}"


def estimate(
    tasks: Sequence[Task], max_turns: int, prompts: Mapping[str, str], candidates: int = 1, draws_pages: bool = False
) -> dict[str, Cost]:
    """What dialogues cost at most, without reasoning, replies that are asked again, and what a cache holds already.

    Args:
        tasks: Task of each dialogue.
        max_turns: Number of messages of the agent in a dialogue.
        prompts: Template of each side that is counted, "agent" and "human".
        candidates: Number of replies of the agent per turn.
        draws_pages: Whether each message of the agent is a page, and the human sees two pictures per call.

    Returns:
        The cost of each side.
    """
    answer = round(fmean(len(task.ground_truth) for task in tasks) / CHARS_PER_TOKEN)
    spoken = answer if draws_pages else TOKENS_PER_MESSAGE  # a message of the agent before its last
    costs = {}
    for side, template in prompts.items():
        agent = side == "agent"
        turns = max_turns if agent else max_turns - 1  # the human does not reply to the last message
        read = turns * (turns - 1) // 2 * (TOKENS_PER_MESSAGE + (spoken if agent else TOKENS_PER_MESSAGE))
        if not agent:
            read += turns * (TOKENS_PER_MESSAGE + (2 * TOKENS_PER_PICTURE if draws_pages else answer))
        prompts_read = sum((len(template) + len(task.problem_description)) // CHARS_PER_TOKEN for task in tasks)
        written = ((turns - 1) * spoken + answer) * candidates if agent else turns * TOKENS_PER_MESSAGE
        calls = len(tasks) * turns * (candidates if agent else 1)
        costs[side] = Cost(calls, turns * prompts_read + len(tasks) * read, len(tasks) * written)
    return costs


def summarise_dialogues(rows: Iterable[dict]) -> dict[str, Any]:
    """The summary of trajectory rows: endings, failures by side and kind with the first message of each kind, turns,
    the agent's messages that were cut, tokens, leaks.

    Args:
        rows: Trajectories as they are on disk; they are read once and not kept.
    """
    endings, failures, counts, tokens = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    messages: dict[str, str] = {}
    for row in rows:
        endings[row.get("ending") or "unknown"] += 1
        if failure := row.get("failure"):
            kind = f"{failure.get('side')}: {failure.get('kind')}"
            failures[kind] += 1
            messages.setdefault(kind, failure.get("message", ""))
        reasons = [one.get("finish_reason") for one in row["dialogue_history"] if one["role"] == "assistant"]
        counts.update(dialogues=1, turns=len(reasons), cut=reasons.count("length"), outgrown=reasons.count(OUTGROWN))
        counts.update(leaks=row.get("leaks", 0), with_leaks=row.get("leaks", 0) > 0)
        for side, usage in row.get("usage", {}).items():
            tokens.update({f"{side}_{name}": number for name, number in usage.items() if number is not None})
    dialogues = counts["dialogues"]
    summary: dict[str, Any] = {
        "dialogues": dialogues,
        "endings": dict(sorted(endings.items())),
        "failures": dict(sorted(failures.items())),
        "turns": counts["turns"],
        "turns_per_dialogue": round(counts["turns"] / dialogues, 2) if dialogues else 0.0,
        "cut_messages": counts["cut"],
        "dialogues_too_long_for_the_agent": counts["outgrown"],
        "simulator_leaks": counts["leaks"],
        "dialogues_with_leaks": counts["with_leaks"],
        "tokens": dict(sorted(tokens.items())),
    }
    if messages:
        summary["first_messages"] = dict(sorted(messages.items()))
    return summary
