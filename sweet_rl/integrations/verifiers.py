"""ColBench in verifiers: a taskset, its two-sided environment, and a harness that calls the models from this process.

    vf-eval sweet-rl-colbench -m MODEL --client.base-url http://localhost:8000/v1 --no-push -n 20 -r 4

A task is one row of a tasks file. The environment plays the dialogue between the agents `agent` and `human`; the
trace of `agent` gets the reward. See docs/integrations.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AsyncExitStack
from functools import cached_property
from itertools import count
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI
from pydantic import Field

from sweet_rl.dialogues.play import trajectory_id
from sweet_rl.integrations.benchmark import Benchmark
from sweet_rl.models.base import Completion, Message, ModelError, Sampling
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory

DIALOGUE = "dialogue"  # name of the trajectory in a trace's info
HUMAN_SAMPLING_UNSET = dict.fromkeys(("temperature", "top_p", "max_tokens", "seed"))  # each request sets them


class RequestState(vf.State):
    """Runtime state of a trace: the fields of its next request beside model and messages."""

    request: dict[str, Any] = Field(default_factory=dict)


class TurnHarness(vf.Harness[vf.HarnessConfig]):
    """One model call per turn, with exactly the messages of that turn, made from this process."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    @cached_property
    def _client(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url="http://localhost", api_key="EMPTY", timeout=None)

    async def resume(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, messages, tool_interception_url=None):
        turn = data.model_copy(update={"prompt": messages})
        return await self.launch(ctx, trace, runtime, endpoint, secret, mcp_urls, turn)

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        prompt = [vf.UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else data.prompt
        messages = [message.model_dump(exclude_none=True) for message in prompt]
        client = self._client.with_options(base_url=endpoint, api_key=secret)
        await client.chat.completions.create(model=ctx.model, messages=messages, **trace.state.request)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class ColBenchData(vf.TaskData):
    row: dict[str, Any]
    """The task as in its file."""


class ColBenchTask(vf.Task[ColBenchData, RequestState]):
    """A task with its benchmark, which grades the dialogue that the environment has put into `trace.info`."""

    def __init__(self, data: ColBenchData, config: vf.TaskConfig, benchmark: Benchmark) -> None:
        super().__init__(data, config)
        self.benchmark = benchmark

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """The reward, and `success` as a metric. A raise leaves the trace without both, and not `ok`."""
        graded = await self.benchmark.grade(trajectory_of(trace))
        if graded.reward is None:
            raise ValueError(f"{graded.id} cannot be graded: {(graded.grade or {}).get('ungradable')}")
        trace.info[DIALOGUE] = graded.to_dict()
        trace.record_metric("success", float(graded.reward == 1.0))
        return graded.reward


class ColBenchConfig(vf.TasksetConfig):
    task_type: str = "mini"
    """code (Backend Programming), html (Frontend Design), mini, or a Python file with a DOMAIN."""
    input_path: str | None = None
    """Tasks, JSONL; the mini tasks need none."""
    scripted_human: str | None = "auto"
    """A human of the domain that needs no model. `auto`: the one of mini; elsewhere None, a model."""
    max_turns: int = 10
    """Number of messages that the agent may write."""
    agent_prompt_path: str | None = None
    """The agent's prompt; by default the domain's. Agents that were trained from mini know mini_agent.txt only."""
    human: dict[str, Any] = Field(default_factory=dict)
    """How a model plays the human: temperature, max_tokens, max_chars, retry_leaks."""
    grading: dict[str, Any] = Field(default_factory=dict)
    """Grading flags of evaluate_code.py (timeout, memory_mb, workers, sandbox) or, for pages, of evaluate_html.py."""


class ColBench(vf.Taskset[ColBenchTask, ColBenchConfig]):
    """The tasks of one domain."""

    @cached_property
    def benchmark(self) -> Benchmark:
        names = ColBenchConfig.model_fields.keys() - vf.TasksetConfig.model_fields.keys()
        return Benchmark(**{name: getattr(self.config, name) for name in names})

    def load(self) -> Iterator[ColBenchTask]:
        for task in self.benchmark.load_tasks():
            data = ColBenchData(id=task.id, description=task.problem_description, row=task.to_dict())
            yield ColBenchTask(data, self.config.task, self.benchmark)


class ColBenchEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    human: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig(), sampling=HUMAN_SAMPLING_UNSET)
    """The model that plays the human: `--env.human.model`."""
    omit: list[str] = Field(default_factory=list)
    """Fields that a server refuses and that are left out of all requests: temperature, top_p, max_tokens, seed."""


class ColBenchEnv(vf.Env[ColBenchEnvConfig]):
    """The dialogue of an agent and a human about a task."""

    def __init__(self, config: ColBenchEnvConfig) -> None:
        super().__init__(config)
        self.benchmark: Benchmark = self.taskset.benchmark
        if self.benchmark.scripted_human is None and config.human.model is None:
            raise UserError(
                "a model has to play the human: name it with --env.human.model (and its server, if it is not that of "
                "the agent, with --env.human.client.type eval --env.human.client.base-url URL)."
            )
        self._taken: set[str] = set()  # ids of dialogues, so that each of a task has a number and seeds of its own

    async def setup(self, agents: vf.Agents) -> None:
        agents.human.trainable = False

    def complete(self, episode: vf.Episode) -> bool:
        """Whether `--resume` keeps a saved episode, whose number is then taken."""
        kept = super().complete(episode)
        if kept:
            self._taken |= {trace.info[DIALOGUE]["id"] for trace in episode.traces if trace.agent.name == "agent"}
        return kept

    async def run(self, task: ColBenchTask, agents: vf.Agents) -> None:
        played = Task.from_dict(task.data.row)
        sample = next(number for number in count() if trajectory_id(played, number) not in self._taken)
        self._taken.add(trajectory_id(played, sample))
        async with AsyncExitStack() as exchanges:
            agent = await exchanges.enter_async_context(agents.agent.interaction(task))
            policy, human = CalledModel(agent, self.config.omit), None
            if self.benchmark.scripted_human is None:
                other = await exchanges.enter_async_context(agents.human.interaction(HumanTask(vf.TaskData())))
                human = CalledModel(other, self.config.omit)
            trajectory = await self.benchmark.play(played, policy, human, self.config.human.model or "", sample)
            if trajectory.ending != "failed":
                agent.trace.info[DIALOGUE] = trajectory.to_dict()
                return
            self._taken.discard(trajectory.id)
            if not agent.trace.errors:  # an error fails the agent's trace too, so that it is not rewarded
                raise RuntimeError("{side}: {kind}: {message}".format(**(trajectory.failure or {})))

    async def finalize(self, task: ColBenchTask, episode: vf.Episode) -> None:
        """An episode that is not `ok` has no reward."""
        if not all(trace.ok for trace in episode.traces):
            for trace in episode.traces:
                trace.rewards.clear()
                trace.metrics.pop("success", None)


class HumanTask(vf.Task[vf.TaskData, RequestState]):
    """The human's side: nothing is rewarded."""


class CalledModel:
    """The model at the other end of an interaction. The fields `omit` are not sent."""

    chat = None

    def __init__(self, interaction: vf.Interaction, omit: Collection[str]) -> None:
        self._interaction, self._omit = interaction, omit

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        trace = self._interaction.trace
        request = {
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed % 2**31,
        }
        trace.state.request = {name: value for name, value in request.items() if name not in self._omit}
        segment = await self._interaction.turn(
            [{"role": message["role"], "content": message["content"]} for message in messages]
        )
        if segment.terminated:
            raise ModelError("server", trace.errors[-1].message if trace.errors else str(trace.stop_condition))
        last = trace.calls[-1]
        reason = "length" if last.finish_reason == "length" else "stop"
        usage = (last.usage.prompt_tokens, last.usage.completion_tokens) if last.usage else (None, None)
        return [Completion(segment.messages[-1].content or "", None, None, reason, *usage)]


def trajectory_of(trace: vf.Trace) -> Trajectory:
    """The dialogue that `ColBenchEnv` recorded in an agent's trace."""
    return Trajectory.from_dict(trace.info[DIALOGUE], f"trace {trace.id}")
