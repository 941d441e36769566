"""The names that `--task_type` takes, and domains in files of a user's own."""

import pytest

from sweet_rl.dialogues.mini.human import MiniHuman
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

OWN = """
from dataclasses import dataclass
from sweet_rl.dialogues import Domain
from sweet_rl.dialogues import FunctionGrader

@dataclass
class Rule:
    name: str = "x"

DOMAIN = Domain("mine", lambda settings: FunctionGrader(lambda task, answer: 1.0))
"""


@pytest.mark.parametrize("name", ["code", "html", "mini"])
def test_the_packaged_domains_have_their_names(name):
    domain = load_domain(name)
    assert domain.name == name and domain.source is None
    assert domain.draws_pages == (name == "html")
    assert "{problem_description}" in domain.agent_template() and domain.human_template()


def test_the_mini_agent_and_its_human_can_be_named_in_code():
    code = load_domain("code")
    assert code.agent_template("mini") == "{problem_description}" != code.agent_template("other")
    assert isinstance(code.make_human("mini"), MiniHuman)


def test_a_turn_of_a_mini_task_is_labelled_and_of_any_other_task_is_not():
    task = Task("p", "g", extra={"mini": {"family": "parking_fee", "rules": [["rate", 0, 2, 0]]}})
    for name in ("code", "mini"):
        label = load_domain(name).label_turn
        assert label(task, [], "What is the rate for each one?") == "useful"
        assert label(task, [], "When do you need it?") == "useless"
        assert label(Task("p", "g"), [], "When do you need it?") is None


def test_a_file_is_loaded_each_time_with_its_path(tmp_path):
    path = tmp_path / "my_domain.py"
    path.write_text(OWN)
    domain = load_domain(str(path))
    assert domain.name == "mine" and domain.source == path
    path.write_text(OWN.replace('"mine"', '"other"'))
    assert load_domain(str(path)).name == "other"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "no file"),
        ("x = 1\n", "no DOMAIN"),
        ("DOMAIN = {}\n", "a dict"),
        ("import os\nimport nothing_of_this_name\n", "line 2: ModuleNotFoundError"),
        ("x = 1\n\ny = x +\n", "line 3: SyntaxError"),
        ("def f():\n    return 1 / 0\n\nf()\n", "line 2: ZeroDivisionError"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
    ],
)
def test_a_file_that_is_no_domain_is_refused_with_its_line(tmp_path, text, named):
    path = tmp_path / "my_domain.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=named) as error:
        load_domain(str(path))
    assert str(path) in str(error.value)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="code, html, mini"):
        load_domain("html5")
