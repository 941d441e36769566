"""Which server and key each model of one command has."""

import pytest

from sweet_rl.evaluation.colbench import ModelsAndTasks
from sweet_rl.runs.errors import UserError


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
        ({"model": ("a", "b", "c"), "model_hostname": ("one", "two")}, "model_hostname has 2 values for 3"),
        ({"model": ("a",), "model_api_key_variable": ("ONE", "TWO")}, "one"),
    ],
)
def test_what_does_not_go_together_is_refused(given, words):
    with pytest.raises(UserError, match=words):
        ModelsAndTasks(human="h", **given)
