"""The table of the recipes: as it stands in the manual, and figures worked out by hand."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from tests.support.command_line import ROOT


@pytest.fixture
def recipe_table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("recipe_table")


def test_the_page_on_hardware_holds_the_table_as_it_is_calculated(recipe_table):
    page = importlib.import_module("memory_table").PAGE.read_text()
    assert f"{recipe_table.BEGIN}\n\n{recipe_table.table()}\n\n{recipe_table.END}" in page


def test_seconds_of_a_training_and_of_sampling(recipe_table, monkeypatch):
    monkeypatch.setattr(recipe_table, "ASSUMED", {"arithmetic": 0.5, "bandwidth": 1.0, "link": 1e10})
    gpu = recipe_table.GPU(1e9, 2e12, 1e12)
    shape = replace(recipe_table.QWEN_1B, layers=0)
    weights = shape.parameters
    assert weights == 151936 * 1536 + 1536
    alone = recipe_table.training(shape, gpu, 1, 10, 1000, None)
    assert alone == pytest.approx(10 * 8 * weights * 1000 / 1e12)
    divided = recipe_table.training(shape, gpu, 2, 10, 1000, None)
    assert divided - alone / 2 == pytest.approx(10 * 4 * weights / 2 / 1e10)  # half of it is exchanged, twice
    assert recipe_table.training(shape, gpu, 1, 10, 1000, 16) == pytest.approx(alone * 6 / 8)
    seconds = recipe_table.generating(shape, gpu, 1, 256, 100, 10)
    assert seconds == pytest.approx(256 * 100 * 2 * weights / 1e12 + 10 * 2 * weights / 1e12)


def test_every_training_and_ranking_of_the_recipes_fits_its_gpu(recipe_table):
    for one in recipe_table.RUNS.values():
        for _, memory, _ in recipe_table.steps_of(one):
            if memory[0].isdigit():
                assert float(memory.split(" GB")[0]) * 1e9 <= one.gpu.memory
