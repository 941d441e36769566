"""Which server and key each model of one command has; defaults of domain and protocol."""

import contextlib
from types import SimpleNamespace

import pytest

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.collect import CollectionSettings
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.protocols import Grade
from sweet_rl.dialogues.task_types import ProtocolSettings
from sweet_rl.evaluation.colbench import ColBench, ModelsAndTasks, check_grading
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from tests.support.command_line import write_rows


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("ONE", "TWO"):
        monkeypatch.setenv(name, f"key-{name}")


def places(**given) -> list[tuple]:
    found = ModelsAndTasks(human="h", **given).servers().values()
    return [(where.urls(), where.api_key(), where.engine, where.tokenizer) for where in found]


def test_each_model_has_its_own_server_or_all_have_the_same_and_one_model_may_have_several():
    first, second = ["http://one:8000/v1"], ["http://two:8000/v1"]
    both = {"model": ("a", "b"), "model_hostname": ("one", "two")}
    assert places(**both, model_api_key_variable=("ONE", "TWO")) == [
        (first, "key-ONE", "auto", None), (second, "key-TWO", "auto", None),
    ]  # fmt: skip
    assert places(**both | {"model_hostname": ("one",)}) == [(first, None, "auto", None)] * 2
    assert places(model=("a",), model_hostname=("one", "two")) == [(first + second, None, "auto", None)]


def test_without_a_server_it_is_openais_own_api(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    assert places(model=("a",)) == [([], "key-of-openai", "openai", None)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": ("org/a", "org_a")}, "once"),
        ({"model": ()}, "once"),
        ({"model": ("a",), "limit": 0}, "--limit is 0"),
        ({"model": ("a", "b", "c"), "model_hostname": ("one", "two")}, "model_hostname has 2 values for 3"),
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


def test_the_reason_of_a_reference_without_a_picture_steers_no_terminal(capsys):
    grades = [Grade(1.0), Grade(None, ungradable="\x1b[2J")]
    grader = SimpleNamespace(describe=lambda: "pictures", grade_many=lambda jobs: grades)
    domain = SimpleNamespace(draws_pages=True, make_grader=lambda grading: contextlib.nullcontext(grader))
    check_grading(domain, PageGrading(), [Task("a page", "<p>"), Task("another", "<b>")])
    printed = capsys.readouterr().out
    assert r"\x1b[2J" in printed and "\x1b" not in printed
