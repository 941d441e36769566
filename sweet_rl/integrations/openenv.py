"""ColBench as an OpenEnv server: an action is the agent's message, an observation the human's reply.

    python scripts/serve_openenv.py --task_type mini --port 8000

The rewards come from the package's graders at the end of a dialogue. See docs/integrations.md.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import uvicorn
from fastapi import HTTPException  # a status over HTTP; over the WebSocket, which clients use, its text
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

import sweet_rl
from sweet_rl.integrations.benchmark import Benchmark, CalledModel, DialogueFailed
from sweet_rl.method.turn_credit import TurnScorer
from sweet_rl.models.base import ChatModel, Completion, Message, Sampling
from sweet_rl.models.hostnames import is_own_request
from sweet_rl.runs.printable import printable
from sweet_rl.runs.records import Ending, Task, Trajectory
from sweet_rl.runs.redaction import redacted

LONGEST_MESSAGE = 200_000  # characters; the sessions share one process, which reads every message

logger = logging.getLogger(__name__)

NO_DIALOGUE = (
    "there is no dialogue to reply in: reset first. A dialogue lives in a WebSocket session, as EnvClient opens it; "
    "each POST to /reset or /step is a session of its own."
)


class AgentMessage(Action):
    """A message of the agent."""

    message: str

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> AgentMessage:
        """The action of a request. Raises HTTPException 422, because OpenEnv's client shows no error of pydantic."""
        try:
            action = super().model_validate(obj, **options)
            action.message.encode()  # what cannot be sent back is no text
            if (length := len(action.message)) <= LONGEST_MESSAGE:
                return action
            found = f"message: it has {length} characters, and at most {LONGEST_MESSAGE} are read"
        except ValidationError as error:
            found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        except UnicodeEncodeError as error:
            found = f"message: {error.reason} (character {error.start})"
        raise HTTPException(422, f'an action is {{"message": TEXT}}, the words of the agent. {found}')


class HumanMessage(Observation):
    """What the agent hears. The reward is 0 until the dialogue ends."""

    message: str
    """The human's reply; after a reset the instructions with the task, at the end nothing."""
    messages: list[dict[str, Any]]
    """All that the agent sees before its next turn, {role, content}; at the end the whole dialogue."""
    ending: Ending | None = None
    """None while the dialogue goes on, then answered or turn_limit."""
    turn_credit: list[float] | None = None
    """At the end, with a critic: the credit of each turn of the agent."""


class DialogueState(State):
    """Where a session is. It has nothing that the agent must not see."""

    task_id: str | None = None
    ending: Ending | None = None


class ColBenchEnvironment(Environment[AgentMessage, HumanMessage, DialogueState]):
    """The dialogues of one session, one after the other.

    Args:
        benchmark: The domain and its rules, which all sessions read.
        tasks: Its tasks by id.
        human: Model that plays the human; None for a scripted human.
        human_name: Name of that model.
        critic: Critic that gives the turns their credit.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        benchmark: Benchmark,
        tasks: Mapping[str, Task],
        human: ChatModel | None = None,
        human_name: str = "",
        critic: TurnScorer | None = None,
    ) -> None:
        super().__init__()
        self._benchmark, self._tasks, self._critic = benchmark, tasks, critic
        self._human, self._human_name = human, human_name
        self._state = DialogueState()
        self._dialogue: _Dialogue | None = None

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, task_id: str | None = None, **unknown: Any
    ) -> HumanMessage:
        """Begin a dialogue.

        Args:
            seed: Number of the dialogue, which determines its task and the seed of the human: with n tasks, 0 to n - 1
                are one dialogue about each, n to 2n - 1 another one about each. Random by default. With `task_id` it
                counts the dialogues about that task.
            episode_id: Name of the episode, for its state.
            task_id: Task of the dialogue.
            unknown: Anything else, which is refused.

        Raises:
            HTTPException: 422 for a wrong argument, 404 for an unknown task.
        """
        if unknown:
            raise HTTPException(422, f"reset takes seed, episode_id and task_id, not {', '.join(map(repr, unknown))}.")
        if seed is None:
            seed = random.SystemRandom().randrange(2**31)
        if type(seed) is not int or seed < 0:
            raise HTTPException(422, f"seed is {seed!r}; it must be a whole number of at least 0.")
        if task_id is None:
            seed, number = divmod(seed, len(self._tasks))
            task_id = list(self._tasks)[number]
        if not isinstance(task_id, str) or task_id not in self._tasks:
            some = ", ".join(list(self._tasks)[:3])
            raise HTTPException(404, f"there is no task {task_id!r} among the {len(self._tasks)}: {some}, ...")
        self.close()
        self._state = DialogueState(episode_id=episode_id, task_id=task_id)
        human = CalledModel.of(self._human, self._human_name)
        self._dialogue = _Dialogue(self._benchmark, self._tasks[task_id], seed, human)
        return await self._heard()

    async def step_async(self, action: AgentMessage, timeout_s: float | None = None, **_: Any) -> HumanMessage:
        """Let the agent speak and the human reply, or end the dialogue with its reward.

        Raises:
            HTTPException: 409 if there is no dialogue; 502 if the human or the machine failed, or the task cannot be
                graded: such a dialogue has no reward and is over. Why is logged, and not told the client: what a
                server or a reference says may hold the solution.
        """
        if self._dialogue is None:
            raise HTTPException(409, NO_DIALOGUE)
        self._state.step_count += 1
        self._dialogue.replies.put_nowait(action.message)
        return await self._heard()

    async def _heard(self) -> HumanMessage:
        assert self._dialogue is not None
        event = await self._dialogue.events.get()
        if isinstance(event, list):
            reward = 0.0 if self._state.step_count else None
            return HumanMessage(message=event[-1]["content"], messages=[dict(one) for one in event], reward=reward)
        self._dialogue = None
        try:
            if isinstance(event, Exception):
                raise event
            graded = await self._benchmark.rewarded(event)
            credit = None if self._critic is None else (await self._critic.credit([graded]))[0]
        except Exception as error:
            logger.error("%s: %s", self._state.task_id, printable(redacted(str(error))))
            shown = error.shown if isinstance(error, DialogueFailed) else "it failed"
            raise HTTPException(
                502, f"{self._state.task_id}: {shown}; the server's log says why. Reset for another dialogue."
            ) from error
        self._state.ending = graded.ending
        return HumanMessage(
            message="",
            messages=[{"role": one["role"], "content": one["content"]} for one in graded.dialogue_history],
            ending=graded.ending,
            turn_credit=credit,
            reward=graded.reward,
            done=True,
        )

    def reset(self, *_: Any, **__: Any) -> HumanMessage:
        raise NotImplementedError("reset_async")

    def step(self, *_: Any, **__: Any) -> HumanMessage:
        raise NotImplementedError("step_async")

    @property
    def state(self) -> DialogueState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        name = self._benchmark.domain.name
        about = f"ColBench ({name}): a dialogue with a human about a task, and a reward for the answer."
        return EnvironmentMetadata(name=f"sweet_rl_{name}", description=about, version=sweet_rl.__version__)

    def close(self) -> None:
        """Stop a dialogue in progress."""
        if self._dialogue is not None:
            self._dialogue.stop()
            self._dialogue = None


class _Dialogue:
    """`Benchmark.play` with an agent that waits for `replies`.

    `events` gets the messages before each turn, and at the end the trajectory or what was raised.
    """

    def __init__(self, benchmark: Benchmark, task: Task, sample: int, human: CalledModel | None) -> None:
        self.events: asyncio.Queue[list[Message] | Trajectory | Exception] = asyncio.Queue()
        self.replies: asyncio.Queue[str] = asyncio.Queue()
        self._playing = asyncio.create_task(self._play(benchmark, task, sample, human))

    async def _play(self, benchmark: Benchmark, task: Task, sample: int, human: CalledModel | None) -> None:
        try:
            self.events.put_nowait(await benchmark.play(task, sample, CalledModel(self._speak), human))
        except Exception as error:
            self.events.put_nowait(error)

    async def _speak(self, messages: list[Message], sampling: Sampling) -> Completion:
        self.events.put_nowait(messages)
        return Completion(await self.replies.get(), None, None, "stop")

    def stop(self) -> None:
        """End it, also from another thread, in which OpenEnv closes environments."""
        self._playing.get_loop().call_soon_threadsafe(self._playing.cancel)


class OwnClients:
    """ASGI middleware that refuses what a page of another site sends through a browser of this machine.

    Args:
        app: The application.
        host: Address on which it listens. On a loopback address the Host header must name one, too.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._is_own(Headers(scope=scope)):
            if scope["type"] == "http":
                await PlainTextResponse("this server answers its own clients only", 403)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
            return
        await self._app(scope, receive, send)

    def _is_own(self, headers: Headers) -> bool:
        return is_own_request(headers.get("host", ""), headers.get("origin"), self._host)


def make_app(
    benchmark: Benchmark, human: ChatModel | None, human_name: str, critic: TurnScorer | None, max_sessions: int
) -> ASGIApp:
    """The server of the benchmark as an ASGI application; see `ColBenchEnvironment`.

    Raises:
        UserError: Its tasks cannot be read.
    """
    tasks = {task.id: task for task in benchmark.load_tasks()}
    made = partial(ColBenchEnvironment, benchmark, tasks, human, human_name, critic)
    app = create_app(made, AgentMessage, HumanMessage, env_name="sweet_rl", max_concurrent_envs=max_sessions)

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except WebSocketDisconnect:
            pass  # because openenv-core 0.3.0 closes sessions that the client has closed (its issue 1159)

    return called


def serve(app: ASGIApp, host: str, port: int) -> None:
    """Serve the application of `make_app` until the process is ended."""
    most = 12 * LONGEST_MESSAGE + 1000  # bytes of a message in JSON's escapes
    uvicorn.run(OwnClients(app, host), host=host, port=port, log_level="warning", access_log=False, ws_max_size=most)
