"""The page of results: what it shows, says and copies, from folders as reproduce.sh leaves them."""

import json

import pytest

from sweet_rl.errors import UserError
from sweet_rl.evaluation.results_page import results_page
from tests.support.command_line import call, write_rows


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
        files["SWEET-RL"].append(str(place / "sweet.graded.jsonl"))
        row = {"step": "train SWEET-RL", "output": str(place / "sweet"), "seconds": 2.0 * seconds, "gpus": 0,
               "user_seconds": seconds - 1, "system_seconds": 1, "status": 0, "command": "c"}  # fmt: skip
        write_rows(place / "times.jsonl", [row, {**row, "output": str(place / "other")}, row])
    (folder / "table2.json").write_text(json.dumps({"files": files}))
    (folder / "table2.md").write_text("| run | seeds |\n| --- | ---: |\n| SWEET-RL | 2 |\n")
    for name in ("table2.png", "table2.svg"):
        (folder / name).write_bytes(b"picture")
    return folder


def test_the_page_has_the_table_the_figure_the_command_the_seeds_and_the_time(results):
    page, files = results_page(results, "bash scripts/reproduce.sh {target} --mini --seeds {seeds}")
    parts = [
        "| SWEET-RL | 2 |", "bash scripts/reproduce.sh table2 --mini --seeds 2",
        "![Table 2: the methods, table2](table2.png)",
        "seeds 0, 1", "torch 2.13.0", "python 3.10.0 and 3.11.0", "1.5 CPU minutes per seed (2 seeds)",
        "| train SWEET-RL | 2 | 180 | 90 |",
    ]  # fmt: skip
    for part in parts:
        assert part in page, part
    assert "Table 3" not in page and "budget.png" not in page
    assert {path.name for path in files} == {"table2.json", "table2.md", "table2.png", "table2.svg"}


def test_the_command_writes_the_page_and_what_it_shows(results, tmp_path):
    flags = {"input_dir": results, "output_dir": tmp_path / "page"}
    assert call("write_results_page.py", **flags).code == 0
    names = {path.name for path in (tmp_path / "page").iterdir()}
    assert names == {"README.md", "table2.json", "table2.md", "table2.png", "table2.svg"}
    assert call("write_results_page.py", **flags | {"output_dir": results}).code == 0
    (tmp_path / "page" / "README.md").write_text("mine")
    assert "holds something else" in call("write_results_page.py", **flags).err


def test_the_page_shows_the_tries_of_settings_and_keeps_the_ledger_of_test_runs(results):
    (results / "settings.md").write_text("| method | try |\n")
    (results / "settings.json").write_text("{}")
    (results / "test_ledger.jsonl").write_text("")
    page, files = results_page(results, "bash scripts/reproduce.sh {target} --mini --seeds {seeds}")
    section = page.partition("## Settings tried")[2].partition("## Times")[0]
    assert "\nbash scripts/reproduce.sh settings --mini\n" in section and "| method | try |" in section
    assert {"settings.md", "settings.json", "test_ledger.jsonl"} <= {path.name for path in files}


def test_the_time_of_a_killed_step_counts_for_the_one_that_finished(results):
    place = results.parent / "seed0"
    row = {"step": "play", "output": str(place / "sweet.test.jsonl"), "seconds": 10.0, "gpus": 0, "user_seconds": 4.0,
           "system_seconds": 1.0, "command": "c"}  # fmt: skip
    with open(place / "times.jsonl", "a") as times:
        times.writelines(json.dumps(row | {"status": status}) + "\n" for status in (137, 0))
    assert "| play | 1 | 20 | 10 |" in results_page(results, "c")[0]


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(UserError, match="reproduce.sh"):
        results_page(tmp_path, "c")


def test_credit_names_the_seeds_that_it_was_measured_on(results):
    files = [str(results.parent / "seed1" / "ranked.jsonl")]
    (results / "credit.json").write_text(json.dumps({"SWEET critic": {"files": files, "groups": {}}}))
    (results / "credit.md").write_text("| a |\n")
    page, _ = results_page(results, "reproduce.sh {target} --seeds {seeds}")
    assert "reproduce.sh credit --seeds 1" in page and "reproduce.sh table2 --seeds 2" in page


def test_gpu_hours_are_seconds_times_gpus_per_seed(results):
    for times in results.parent.glob("seed*/times.jsonl"):
        rows = [json.loads(line) | {"gpus": 2} for line in times.read_text().splitlines()]
        write_rows(times, rows)
    # 120 and 240 seconds on two GPUs: 720 GPU seconds, two seeds
    assert "0.1 GPU hours per seed (2 seeds)" in results_page(results, "{target} {seeds}")[0]
