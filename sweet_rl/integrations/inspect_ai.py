"""ColBench in inspect_ai: its tasks, a solver that plays the dialogue, and a scorer on this package's graders.

    inspect eval sweet_rl/mini --model openai-api/local/MODEL --max-retries 3
    inspect eval sweet_rl/colbench_backend -T input_path=test.jsonl \
        --model openai-api/local/MODEL --model-role human=openai-api/human/HUMAN --max-retries 3

`-T` takes the arguments of `Benchmark`. See docs/integrations.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError  # what the command prints without a traceback; not public
from inspect_ai._util.registry import registry_add, registry_info  # not public
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
from inspect_ai.model._model import active_model  # not public
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from sweet_rl.integrations.benchmark import DIALOGUE, TASK, Benchmark, CalledModel, DialogueFailed, LimitReached
from sweet_rl.models.base import Completion, Message, ModelError, Sampling
from sweet_rl.runs import records
from sweet_rl.runs.cli import build
from sweet_rl.runs.errors import UserError


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
        settings: other arguments of `Benchmark`.

    Raises:
        PrerequisiteError: An argument of `Benchmark` that is unknown or cannot be used, no tasks, or (in an evaluation)
            no model for a human that a model plays.
    """
    benchmark = benchmark_of(task_type, settings)
    if benchmark.scripted_human is None and active_model() is not None:
        get_model(role="human", required=True)
    try:
        tasks = benchmark.load_tasks()
    except UserError as error:
        raise PrerequisiteError(f"-T: {error}") from error
    samples = [
        Sample(as_sent(benchmark.opening(one)), target=one.ground_truth, id=one.id, metadata={TASK: one.to_dict()})
        for one in tasks
    ]
    sampling = benchmark.sampling
    return Task(
        dataset=MemoryDataset(samples, name=benchmark.domain.name),
        solver=dialogue(task_type, **settings),
        scorer=grade(task_type, **settings),
        config=GenerateConfig(temperature=sampling.temperature, top_p=sampling.top_p, max_tokens=sampling.max_tokens),
    )


@solver
def dialogue(task_type: str, **settings: Any) -> Solver:
    """Plays the dialogue between the model and the simulated human (a script, or the model of the role `human`)."""
    benchmark = benchmark_of(task_type, settings)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        def record(trajectory: records.Trajectory) -> None:
            state.store.set(DIALOGUE, {name: value for name, value in trajectory.to_dict().items() if name != TASK})

        agent = agent_model(state, generate)
        human = None if benchmark.scripted_human else human_model()
        played = records.Task.from_dict(state.metadata[TASK])
        try:
            record(await benchmark.play(played, state.epoch - 1, agent, human, on_cancel=record))
        except DialogueFailed as error:
            raise error.__cause__ or error from None
        for model in filter(None, (agent, human)):
            if isinstance(model.error, LimitReached):
                raise model.error.__cause__ or model.error
        return state

    return solve


@scorer(metrics={"reward": [mean(), stderr()], "success": [mean(), stderr()]})
def grade(task_type: str, **settings: Any) -> Scorer:
    """The reward in [0, 1], and success: a reward of 1. A task that cannot be graded is left unscored.

    A dialogue that a limit of inspect_ai ended is graded as it stands. One that failed is unscored (--score-on-error).
    """
    benchmark = benchmark_of(task_type, settings)

    async def score(state: TaskState, target: Target) -> Score:
        dialogue = state.store.get(DIALOGUE)
        if dialogue is None:
            return Score.unscored(reason="scoring_failed", explanation="the dialogue failed")
        row = {**dialogue, TASK: state.metadata[TASK]}
        graded = await benchmark.grade(records.Trajectory.from_dict(row, f"sample {state.sample_id}"))
        evidence = graded.grade or {}
        if graded.reward is None:
            return Score.unscored(reason="scoring_failed", explanation=evidence["ungradable"])
        value = {"reward": graded.reward, "success": float(graded.reward == 1.0)}
        return Score(value=value, answer=graded.answer, explanation=evidence["failure"], metadata={"grade": evidence})

    return score


# `inspect score LOG` looks a scorer up by the name in the log, which inspect_ai writes without the package.
for _name in ("grade", registry_info(grade).name):
    registry_add(grade, registry_info(grade).model_copy(update={"name": _name}))


def benchmark_of(task_type: str, settings: dict[str, Any]) -> Benchmark:
    """The benchmark with the arguments of `-T`. Raises PrerequisiteError for one that is unknown or cannot be used."""
    try:
        return build(Benchmark, {"task_type": task_type, **settings}, "-T")
    except UserError as error:
        raise PrerequisiteError(str(error)) from error


def agent_model(state: TaskState, generate: Generate) -> CalledModel:
    """The model that is evaluated. The messages of `state` are those that it is sent."""

    async def call(messages: list[Message], sampling: Sampling) -> Completion:
        try:
            state.messages = as_sent(messages)
            after = await generate(state, tool_calls="none", seed=sampling.seed % 2**31)
        except LimitExceededError as error:
            raise LimitReached(str(error)) from error
        return completion_of(after.output)

    return CalledModel(call)


def human_model() -> CalledModel:
    """The model of the role `human`."""
    model = get_model(role="human", required=True)

    async def call(messages: list[Message], sampling: Sampling) -> Completion:
        config = GenerateConfig(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed % 2**31,
        )
        try:
            return completion_of(await model.generate(as_sent(messages), config=config))
        except LimitExceededError as error:
            raise LimitReached(str(error)) from error

    return CalledModel(call, model.api.service_model_name())


def as_sent(messages: Sequence[Message]) -> list[ChatMessage]:
    """Messages in the form of inspect_ai; a content may be a list of texts and pictures, as servers take it."""
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
    """A reply as `dialogues.play` takes it. Raises ModelError if there is none."""
    if output.empty or output.stop_reason in ("content_filter", "model_length"):
        reason = output.error or ("no choices" if output.empty else output.stop_reason)
        kind = "context" if output.stop_reason == "model_length" else "refused"
        raise ModelError(kind, f"{output.model} gave no reply: {reason}")
    usage = output.usage
    tokens = (usage.input_tokens, usage.output_tokens) if usage else (None, None)
    reason = "length" if output.stop_reason == "max_tokens" else "stop"
    return Completion(output.completion, None, None, reason, *tokens)
