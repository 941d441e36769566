"""Which server and key each model of one command has; defaults of domain and protocol; what `results.json` says."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.simulate import CollectionSettings
from sweet_rl.dialogues.task_types import ProtocolSettings
from sweet_rl.evaluation.colbench import ColBench, ModelsAndTasks, check_grading
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import write_rows


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("ONE", "TWO"):
        monkeypatch.setenv(name, f"key-{name}")


def places(**given) -> list[tuple]:
    found = ModelsAndTasks(human="h", **given).servers().values()
    return [(*where.server(), where.engine, where.tokenizer) for where in found]


def test_each_model_has_its_own_server_or_all_have_the_same():
    first, second = "http://one:8000/v1", "http://two:8000/v1"
    both = {"model": ("a", "b"), "model_hostname": ("one", "two")}
    assert places(**both, model_api_key_variable=("ONE", "TWO")) == [
        (first, "key-ONE", "auto", None), (second, "key-TWO", "auto", None),
    ]  # fmt: skip
    assert places(**both | {"model_hostname": ("one",)}) == [(first, None, "auto", None)] * 2


def test_without_a_server_it_is_openais_own_api(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    assert places(model=("a",)) == [(None, "key-of-openai", "openai", None)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": ("org/a", "org_a")}, "once"),
        ({"model": ()}, "once"),
        ({"model": ("a",), "limit": 0}, "--limit is 0"),
        ({"model": ("a", "b", "c"), "model_hostname": ("one", "two")}, "model_hostname has 2 values for 3"),
        ({"model": ("a",), "model_hostname": ("one", "two")}, "model_hostname has 2 values for 1"),
        ({"model": ("a",), "model_api_key_variable": ("ONE", "TWO")}, "one"),
    ],
)
def test_what_does_not_go_together_is_refused(given, words):
    with pytest.raises(UserError, match=words):
        ModelsAndTasks(human="h", **given)


def benchmark(protocol: str = "sweet_rl", **given) -> ColBench:
    return ColBench(
        ModelsAndTasks(model=("a",), model_hostname=("one",), human="h", **given), ProtocolSettings(protocol),
        CollectionSettings(), Sampling(), ModelSettings(hostname="two"), HumanSettings(), CallSettings(),
        CodeGrading(), PageGrading(),
    )  # fmt: skip


def test_as_many_tasks_as_in_the_paper_and_a_folder_for_each_domain_protocol_and_limit():
    assert benchmark().folder.as_posix() == "colbench/first_1000"
    assert benchmark("released").folder.as_posix() == "colbench/released_first_1000"
    assert benchmark(limit=100, task_type="html").folder.as_posix() == "colbench/html_first_100"
    assert benchmark("released", task_type="html").folder.as_posix() == "colbench/html_released_first_500"


def test_tasks_of_the_other_half_are_refused(tmp_path):
    tasks = write_rows(tmp_path / "tasks.jsonl", [Task("a page", "<html></html>")])
    with pytest.raises(UserError, match=r"tasks\.jsonl: no task has test_cases"):
        _ = benchmark(tasks=str(tasks)).tasks


def test_a_sandbox_that_is_not_available_is_found_before_anything_is_paid_for():
    task = Task("Add one.", "def f(x): return x + 1", {"a": "f(1)"})
    check_grading(benchmark().domain, CodeGrading(), [task])
    with pytest.raises(UserError, match="sandbox"):
        check_grading(benchmark().domain, CodeGrading(sandbox="no such level"), [task])


TASKS = [Task(f"Task {n}", "def f(x): return x * 2 + 17", {"a": "f(1)"}, f"t{n}") for n in range(5)]


def dialogue(task: Task, reward: float | None, **more) -> Trajectory:
    history = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a"}]
    grade = {"tests": [], "failure": None, "ungradable": None, **more.pop("grade", {})}
    return Trajectory(task, history, "a", reward, ending=more.pop("ending", "answered"), grade=grade, **more)


def facts(folder: Path, trajectories: list[Trajectory], tasks: list[Task] = TASKS, **given) -> dict:
    file = write_rows(folder / "tasks.jsonl", tasks)
    evaluated = benchmark(tasks=str(file), limit=5, output_dir=str(folder), **given)
    evaluated.folder.mkdir(parents=True)
    write_rows(evaluated.file("a", "graded.jsonl"), trajectories)
    played = {"status": "finished", "settings": {}, "inputs": {}, "summary": {"agent": {"served_as": ["m-2024"]}}}
    evaluated.file("a", "jsonl.manifest.json").write_text(json.dumps(played))
    return evaluated.facts()


def test_failed_dialogues_are_a_second_figure_and_those_without_a_grade_are_excluded(tmp_path):
    rewards = [dialogue(TASKS[0], 1.0), dialogue(TASKS[1], 0.5), dialogue(TASKS[2], 1.0, leaks=3)]
    failed = dialogue(TASKS[3], None, ending="failed")
    excluded = dialogue(TASKS[4], None, grade={"ungradable": "the reference fails"})
    (row,) = facts(tmp_path, [*rewards, failed, excluded])["models"]
    assert (row["dialogues"], row["failed"], row["excluded"], row["leaks_per_dialogue"]) == (5, 1, 1, 3 / 5)
    assert (row["score"]["mean"], row["score"]["tasks"]) == (pytest.approx(2 / 3), 3)
    assert (row["failed_as_0"]["mean"], row["failed_as_0"]["tasks"]) == (0.5, 4)
    assert row["served_as"] == ["m-2024"]
    assert row["tests_passed"] == pytest.approx(2.5 / 3) and row["turns"] == 1.0
    assert row["score"]["low"] < 2 / 3 < row["score"]["high"]


def test_pages_have_the_mean_similarity(tmp_path):
    evidence = {"similarity": 0.5, "encoder": "CLIP"}
    pages = [replace(task, test_cases={}) for task in TASKS]
    trajectories = [dialogue(task, 0.2 * n, grade=evidence) for n, task in enumerate(pages)]
    found = facts(tmp_path, trajectories, pages, task_type="html")
    (row,) = found["models"]
    assert found["measure"] == "similarity" and found["grader"]["encoder"] == "CLIP" and "tests_passed" not in row
    assert row["score"]["mean"] == pytest.approx(0.4) and row["score"]["low"] < 0.4 < row["score"]["high"]


def test_the_hash_of_the_tasks_is_that_of_their_content_and_the_file_has_no_path(tmp_path):
    found = facts(tmp_path, [dialogue(TASKS[0], 1.0)])
    assert found["tasks"]["file"] == "tasks.jsonl" and found["tasks"]["number"] == 5
    assert found["tasks"]["sha256"] == hashlib.sha256((tmp_path / "tasks.jsonl").read_bytes()).hexdigest()
    assert found["protocol"]["name"] == "sweet_rl"
    agent = benchmark().domain.agent_template("a")
    assert found["protocol"]["files"]["agent_prompt"] == hashlib.sha256(agent.encode()).hexdigest()


def test_fields_of_the_request_override_the_sampling_and_others_belong_to_the_model(tmp_path):
    request = {"temperature": None, "reasoning_effort": "low"}
    found = facts(tmp_path, [dialogue(TASKS[0], 1.0)], model_request=request)
    assert found["sampling"]["temperature"] is None and found["sampling"]["max_turns"] == 10
    assert found["models"][0]["request"] == {"reasoning_effort": "low"}
