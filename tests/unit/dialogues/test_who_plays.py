"""Who can play in a domain: a packaged agent is no human, and says if it does not know the tasks."""

import logging
from pathlib import Path

import pytest

from sweet_rl.dialogues import Domain, FunctionGrader, HumanSettings, ScriptedHuman
from sweet_rl.dialogues.collect import CollectionSettings
from sweet_rl.dialogues.mini.domain import MINI, foreign_tasks
from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.dialogues.simulate import PlayerSettings, Simulation
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import write_rows

TRIP = Task("a holiday by the sea", "Crete", id="trip")


class Client:
    async def reply(self, task, dialogue, seed):
        raise AssertionError


def simulation(agent: str, human: str, env: ModelSettings | None = None, **fields) -> Simulation:
    domain = Domain("travel", lambda settings: FunctionGrader(lambda task, answer: 0.0), **fields)
    return Simulation(
        domain, PlayerSettings(agent, human), CollectionSettings(), Sampling(), ModelSettings(), env or ModelSettings(),
        CallSettings(), HumanSettings(), BrowserSettings(),
    )  # fmt: skip


def test_a_packaged_agent_plays_no_human_and_the_domains_own_humans_are_named():
    with pytest.raises(UserError, match="--env_model mini is a packaged agent.*human of its own: --env_model client"):
        simulation("mini", "mini", scripted_humans={"client": ScriptedHuman(Client)})
    with pytest.raises(UserError, match=r"scripted_humans of the DOMAIN in trips\.py"):
        simulation("mini", "mini_hard", source=Path("trips.py"))
    assert simulation("mini", "mini", ModelSettings(hostname="localhost:1")).players.env_model == "mini"
    assert simulation("mini", "mini", scripted_humans=MINI.scripted_humans).scripted


def test_a_human_that_cannot_be_loaded_is_told_apart_from_those_of_the_domain(tmp_path):
    tasks = write_rows(tmp_path / "tasks.jsonl", [TRIP.to_dict()])
    played = simulation("mini", str(tmp_path / "cleint"), human_prompt="code_user.txt")
    with pytest.raises(UserError, match="--env_model .*cleint: .*'travel' has no human without a model"):
        played.run(str(tasks), str(tmp_path / "out.jsonl"), StepSettings())


def test_a_packaged_agent_says_which_tasks_it_does_not_know():
    known = [Task.from_dict(row) for row in make_tasks(3, seed=0)]
    signature = Task("I need a function.\ndef my_own(a, b)", "", id="own")
    assert foreign_tasks("mini", known) is None and foreign_tasks("some/model", [TRIP]) is None
    assert "1 of the 4 tasks are about something else (task trip: 'a holiday" in foreign_tasks("mini", [*known, TRIP])
    assert "2 of the 2 tasks" in foreign_tasks("mini_hard", [signature, TRIP])


def test_the_warning_comes_before_the_dialogues(tmp_path, caplog):
    tasks = write_rows(tmp_path / "tasks.jsonl", [TRIP.to_dict()])
    played = simulation("mini", "no model", human_prompt="code_user.txt")
    with caplog.at_level(logging.WARNING), pytest.raises(UserError):
        played.run(str(tasks), str(tmp_path / "out.jsonl"), StepSettings())
    assert "mini was made for the functions of make_mini_tasks.py" in caplog.text
