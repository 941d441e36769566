"""ColBench in inspect_ai: its tasks, a solver that plays the dialogue, and a scorer on this package's graders.

    inspect eval sweet_rl/mini --model openai-api/local/MODEL --max-retries 3
    inspect eval sweet_rl/colbench_backend -T input_path=test.jsonl \
        --model openai-api/local/MODEL --model-role human=openai-api/human/HUMAN --max-retries 3

`-T` takes the arguments of `Benchmark`. See docs/integrations.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentImage,
    ContentText,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from sweet_rl.integrations.benchmark import Benchmark
from sweet_rl.models.base import Completion, Message, ModelError, Sampling
from sweet_rl.runs import records
from sweet_rl.runs.cli import build

DIALOGUE, TASK = "dialogue", "task"  # the trajectory in a sample's store, and the task in its metadata


@task
def colbench_backend(**settings: Any) -> Task:
    """Backend Programming: hidden unit tests. Needs input_path; a model plays the human."""
    return domain("code", **settings)


@task
def colbench_frontend(**settings: Any) -> Task:
    """Frontend Design: similarity of pages. Needs input_path; a vision model plays the human."""
    return domain("html", **settings)


@task
def mini(**settings: Any) -> Task:
    """The embedded small tasks, with their scripted human."""
    return domain("mini", **settings)


@task
def domain(task_type: str, **settings: Any) -> Task:
    """Any domain, also one's own.

    Args:
        task_type: code, html, mini, or the path of a Python file with a DOMAIN.
        settings: Other arguments of `Benchmark`.

    Raises:
        UserError: An argument of `Benchmark` that is unknown or cannot be used, or no tasks.
    """
    benchmark = benchmark_of(task_type, settings)
    samples = [
        Sample(as_sent(benchmark.opening(one)), target=one.ground_truth, id=one.id, metadata={TASK: one.to_dict()})
        for one in benchmark.load_tasks()
    ]
    return Task(
        dataset=MemoryDataset(samples, name=benchmark.domain.name),
        solver=dialogue(task_type, **settings),
        scorer=grade(task_type, **settings),
        config=config_of(benchmark.sampling),
    )


@solver
def dialogue(task_type: str, **settings: Any) -> Solver:
    """Plays the dialogue between the model and the simulated human (a script, or the model of the role `human`)."""
    benchmark = benchmark_of(task_type, settings)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async def ask(messages: list[ChatMessage], sampling: Sampling) -> ModelOutput:
            state.messages = messages
            return (await generate(state, tool_calls="none", seed=sampling.seed % 2**31)).output

        async def ask_human(messages: list[ChatMessage], sampling: Sampling) -> ModelOutput:
            return await get_model(role="human").generate(messages, config=config_of(sampling, sampling.seed % 2**31))

        agent, human, name = CalledModel(ask), None, ""
        if benchmark.scripted_human is None:
            human, name = CalledModel(ask_human), get_model(role="human", required=True).api.service_model_name()
        task = records.Task.from_dict(state.metadata[TASK])
        trajectory = await benchmark.play(task, agent, human, name, sample=state.epoch - 1)
        if trajectory.ending == "failed":
            error = agent.error or (human and human.error)
            raise error or RuntimeError("{side}: {kind}: {message}".format(**(trajectory.failure or {})))
        state.store.set(DIALOGUE, trajectory.to_dict())
        return state

    return solve


@scorer(metrics={"reward": [mean(), stderr()], "success": [mean(), stderr()]})
def grade(task_type: str, **settings: Any) -> Scorer:
    """The reward in [0, 1], and success: a reward of 1. A task that cannot be graded is left unscored.

    So is a dialogue that failed, or that a limit of inspect_ai ended: the limit of turns is `-T max_turns`.
    """
    benchmark = benchmark_of(task_type, settings)

    async def score(state: TaskState, target: Target) -> Score:
        row = state.store.get(DIALOGUE)
        if row is None:
            return Score.unscored(reason="scoring_failed", explanation="the dialogue did not end")
        graded = await benchmark.grade(records.Trajectory.from_dict(row, f"sample {state.sample_id}"))
        state.store.set(DIALOGUE, graded.to_dict())
        evidence = graded.grade or {}
        if graded.reward is None:
            return Score.unscored(reason="scoring_failed", explanation=evidence["ungradable"])
        value = {"reward": graded.reward, "success": float(graded.reward == 1.0)}
        return Score(value=value, answer=graded.answer, explanation=evidence["failure"])

    return score


def benchmark_of(task_type: str, settings: dict[str, Any]) -> Benchmark:
    """Return the benchmark with the arguments of `-T`. Raises UserError for one that cannot be used."""
    return build(Benchmark, {"task_type": task_type, **settings}, "-T")


class CalledModel:
    """A side of the dialogue whose replies inspect_ai makes.

    Args:
        generate: Function `generate(messages, sampling)` that returns one reply.

    Attributes:
        error: The exception with which the last call ended; None if it replied.
    """

    chat = None

    def __init__(self, generate: Callable[[list[ChatMessage], Sampling], Awaitable[ModelOutput]]) -> None:
        self._generate = generate
        self.error: Exception | None = None

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        self.error = None
        try:
            return [completion_of(await self._generate(as_sent(messages), sampling))]
        except Exception as error:
            self.error = error
            raise


def config_of(sampling: Sampling, seed: int | None = None) -> GenerateConfig:
    """Return sampling in the form of inspect_ai."""
    return GenerateConfig(temperature=sampling.temperature, top_p=1.0, max_tokens=sampling.max_tokens, seed=seed)


def as_sent(messages: Sequence[Message]) -> list[ChatMessage]:
    """Return messages in the form of inspect_ai; a content may be a list of texts and pictures, as servers take it."""
    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    return [kinds[message["role"]](content=_content(message["content"])) for message in messages]


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [
        ContentText(text=part["text"]) if part["type"] == "text" else ContentImage(image=part["image_url"]["url"])
        for part in content
    ]


def completion_of(output: ModelOutput) -> Completion:
    """Return a reply as `dialogues.play` takes it. Raises ModelError if there is none."""
    if output.empty or output.stop_reason in ("content_filter", "model_length"):
        reason = output.error or ("no choices" if output.empty else output.stop_reason)
        kind = "context" if output.stop_reason == "model_length" else "refused"
        raise ModelError(kind, f"{output.model} gave no reply: {reason}")
    usage = output.usage
    tokens = (usage.input_tokens, usage.output_tokens) if usage else (None, None)
    reason = "length" if output.stop_reason == "max_tokens" else "stop"
    return Completion(output.completion, None, None, reason, *tokens)
