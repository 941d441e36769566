"""A mapping of a flag or a config becomes a dataclass with checked fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from sweet_rl.runs.cli import UNRECORDED, build
from sweet_rl.runs.errors import UserError


@dataclass(frozen=True)
class Model:
    path: str
    bf16: bool = False


@dataclass(frozen=True)
class Critic:
    model: Model
    scale: float = 1.0
    batch_size: Annotated[int, UNRECORDED] = 8
    aggregate: Literal["mean", "sum"] = "mean"
    layers: tuple[int, ...] = field(default_factory=tuple)

    def __post_init__(self):
        if self.scale <= 0:
            raise UserError(f"scale is {self.scale}; it must be positive.")


def test_the_fields_are_those_of_the_mapping_with_the_types_of_the_dataclass():
    values = {"model": {"path": "m", "bf16": True}, "scale": 2, "layers": [1, 2], "aggregate": "sum"}
    assert build(Critic, values, "--x") == Critic(Model("m", True), 2.0, aggregate="sum", layers=(1, 2))
    assert build(Critic, {"model": {"path": "m"}}, "--x") == Critic(Model("m"))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"model": {}}, "^'model' in --x: missing path"),
        ({"model": {"path": "m", "bf": 1}}, "^'model' in --x: .*'bf'.*'bf16'"),
        ({"zzz": 1}, "^--x: .*'zzz'.* model, scale, batch_size, aggregate, layers"),
        ({"batch_size": "many"}, "^'batch_size' in --x is 'many'"),
        ({"model": "m"}, "^'model' in --x is 'm'.* path, bf16"),
        ({"model": {"path": "m"}, "scale": 0}, "^--x: scale is 0.0"),
    ],
)
def test_a_wrong_mapping_is_an_error_that_names_the_setting_and_its_place(values, named):
    with pytest.raises(UserError, match=named):
        build(Critic, values, "--x")
