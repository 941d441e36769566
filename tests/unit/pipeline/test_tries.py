"""The settings to try: the same number for every method, each complete; and the chosen ones."""

import json

import pytest

from sweet_rl.errors import UserError
from sweet_rl.pipeline.tries import chosen_settings, read_tries

DPO = "DPO: {run: dpo, settings: [dpo.beta, dpo.max_epochs], tries: [[0.1, 4], [0.3, 16]]}\n"
SWEET = "SWEET: {run: sweet, settings: [critic.beta, sweet.beta, sweet.rate], tries: [[1, 0.1, 1], [2, 0.1, 1]]}\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        (tmp_path / "tries.yaml").write_text(text)
        return read_tries(tmp_path / "tries.yaml")

    return read_text


def test_a_try_gives_every_flag_of_its_method_a_value(read):
    dpo, sweet = read(DPO + SWEET)
    assert (dpo.name, dpo.run) == ("DPO", "dpo")
    assert dpo.tries == ({"dpo": {"beta": 0.1, "max_epochs": 4}}, {"dpo": {"beta": 0.3, "max_epochs": 16}})
    assert sweet.tries[1] == {"critic": {"beta": 2}, "sweet": {"beta": 0.1, "rate": 1}}


@pytest.mark.parametrize("text, said", [
    (DPO + SWEET.replace(", [2, 0.1, 1]", ""), "the same number of tries, but there are: DPO 2, SWEET 1"),
    (DPO.replace("[0.3, 16]", "[0.3]"), "DPO, try 2: expected a value for each of dpo.beta, dpo.max_epochs"),
    (DPO.replace("[0.3, 16]", "[0.1, 4]"), "DPO, try 2: the same settings as try 1"),
    (DPO + SWEET.replace("critic.beta", "dpo.beta"), "DPO and SWEET both set dpo"),
    (DPO.replace("dpo.beta", "beta"), "expected step.flag"),
    (DPO.replace("run: dpo, ", ""), "DPO: expected run, settings"),
    (DPO.replace("[[0.1, 4], [0.3, 16]]", "[]"), "DPO: there are no tries"),
    ("- 1", "expected methods by name"), ("a: [", "cannot be read"),
])  # fmt: skip
def test_what_would_not_be_a_fair_fight_is_refused(read, text, said):
    with pytest.raises(UserError, match=said.replace("[", r"\[")):
        read(text)


def log(tmp_path, **chosen):
    """A log of two tries per method, {name: index of the chosen one}."""
    tries = {name: [{name: {"beta": 1}}, {name: {"beta": 2}, f"{name}_critic": {"beta": 3}}] for name in chosen}
    methods = {
        name: {"tries": [{"settings": own, "chosen": place == chosen[name]} for place, own in enumerate(tries[name])]}
        for name in chosen
    }
    (tmp_path / "settings.json").write_text(json.dumps({"methods": methods}))
    return tmp_path / "settings.json"


def test_the_chosen_settings_of_all_methods_are_joined_by_step(tmp_path):
    assert chosen_settings(log(tmp_path, a=0, b=1)) == {"a": {"beta": 1}, "b": {"beta": 2}, "b_critic": {"beta": 3}}


def test_a_method_whose_tries_all_failed_and_a_file_of_something_else_are_refused(tmp_path):
    with pytest.raises(UserError, match="every try of b failed"):
        chosen_settings(log(tmp_path, a=0, b=None))
    (tmp_path / "other.json").write_text("[]")
    for name in ("other.json", "none.json"):
        with pytest.raises(UserError, match="reproduce.sh settings"):
            chosen_settings(tmp_path / name)
