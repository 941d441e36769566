"""The page of results, from folders as dodo.py leaves them."""

import json

import pytest

from sweet_rl.evaluation.results_page import results_page
from sweet_rl.runs.errors import UserError
from tests.support.command_line import call


@pytest.fixture
def results(tmp_path):
    """Two seeds of Table 2: an agent that was trained for 60 and 120 seconds."""
    folder, files = tmp_path / "out" / "results", {"SWEET-RL": []}
    folder.mkdir(parents=True)
    for seed, seconds in ((0, 60), (1, 120)):
        place = folder.parent / f"seed{seed}"
        (place / "sweet").mkdir(parents=True)
        manifest = {"status": "finished", "settings": {}, "versions": {"torch": "2.13.0", "python": f"3.1{seed}.0"}}
        for name, inputs in {"sweet.graded.jsonl": ["sweet.test.jsonl"], "sweet.test.jsonl": ["sweet"]}.items():
            made_from = {str(place / path): "0" for path in inputs}
            (place / f"{name}.manifest.json").write_text(json.dumps(manifest | {"inputs": made_from}))
        trained = manifest | {"inputs": {}, "cpu_seconds": seconds}
        (place / "sweet" / "manifest.json").write_text(json.dumps(trained))
        files["SWEET-RL"].append(str(place / "sweet.graded.jsonl"))
    (folder / "table2.json").write_text(json.dumps({"files": files}))
    (folder / "table2.md").write_text("| run | seeds |\n| --- | ---: |\n| SWEET-RL | 2 |\n")
    (folder / "table2.png").write_bytes(b"picture")
    return folder


def test_the_page_has_the_table_the_figure_the_command_the_seeds_and_the_time(results):
    page = results_page(results, "SEEDS=2 bash scripts/reproduce.sh {target}")
    parts = [
        "| SWEET-RL | 2 |", "SEEDS=2 bash scripts/reproduce.sh table2", "![Table 2: the methods, table2](table2.png)",
        "seeds 0, 1", "torch 2.13.0", "python 3.10.0 and 3.11.0", "1.5 CPU minutes per seed (2 seeds)",
    ]  # fmt: skip
    for part in parts:
        assert part in page, part
    assert "budget.png" not in page  # which does not exist


def test_the_script_writes_the_page_and_does_not_replace_one_by_itself(results):
    assert call("write_results_page.py", results=results).code == 0
    assert "| SWEET-RL | 2 |" in (results / "README.md").read_text()
    (results / "README.md").write_text("notes")
    assert "holds something else" in call("write_results_page.py", results=results).err
    assert call("write_results_page.py", "--overwrite", results=results).code == 0


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(UserError, match="no results"):
        results_page(tmp_path, "c")
