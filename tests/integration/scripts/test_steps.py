"""The shell functions that all pipelines share: what a step records, and what runs beside another."""

import json
import subprocess
import time

from tests.support.command_line import ROOT


def shell(tmp_path, text: str) -> tuple[subprocess.CompletedProcess, float]:
    """Runs lines of bash after sourcing steps.sh as the pipelines do; (what came of it, the seconds it took)."""
    started = time.monotonic()
    script = f"set -euo pipefail\nsource scripts/steps.sh\ndir={tmp_path} gpus=0 dry_run=\n{text}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done, time.monotonic() - started


def rows(tmp_path) -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]


def test_a_step_shows_its_output_and_records_what_it_took(tmp_path):
    work = 'python3 -c "sum(range(10**7))" --output_path "a b\\"c" --preference_path other'
    done, _ = shell(tmp_path, f'step "one" echo seen; step "two \\"x\\"" {work}')
    assert done.returncode == 0, done.stderr
    assert "== one\nseen\n-- one: 0 s\n" in done.stdout
    first, second = rows(tmp_path)
    assert (first["step"], first["output"], first["status"], first["gpus"]) == ("one", "", 0, 0)
    assert (second["step"], second["output"]) == ('two "x"', 'a b"c')
    assert 0.05 < second["user_seconds"] + second["system_seconds"] < second["seconds"] + 1


def test_a_step_that_fails_stops_the_pipeline_and_is_recorded(tmp_path):
    done, _ = shell(tmp_path, 'step "bad" sh -c "echo why >&2; exit 3"; echo never')
    assert done.returncode == 3 and "why" in done.stderr and "never" not in done.stdout
    assert rows(tmp_path)[0]["status"] == 3


def test_what_computes_with_a_model_here_takes_all_gpus_and_anything_else_one(tmp_path):
    commands = (
        "train_dpo.py", "rank_best_of_n.py", "sample_best_of_n.py", "simulate_interactions.py --hostname human",
        "sample_best_of_n.py --hostname agent", "simulate_interactions.py --agent_hostname agent", "evaluate_code.py",
    )  # fmt: skip
    shell(tmp_path, "gpus=8; " + "; ".join(f'step "a step" echo scripts/{command}' for command in commands))
    assert [row["gpus"] for row in rows(tmp_path)] == [8, 8, 8, 8, 1, 1, 1]


FINISH = """echo '{"status": "finished"}' > made.manifest.json"""


def test_an_output_is_awaited_and_not_all_that_comes_after_it(tmp_path):
    text = f"""cd {tmp_path}
        later() {{ sleep 0.5; {FINISH}; sleep 30; }}
        beside log later; awaited made log; cat made.manifest.json"""
    done, seconds = shell(tmp_path, text)
    assert done.returncode == 0 and "finished" in done.stdout and seconds < 20


def test_what_fails_beside_stops_the_one_that_waits_with_its_message(tmp_path):
    text = f"cd {tmp_path}; fails() {{ echo told; sleep 0.3; exit 4; }}; beside log fails; awaited made log; echo never"
    done, _ = shell(tmp_path, text)
    assert done.returncode == 4 and "told" in done.stdout and "never" not in done.stdout


def test_what_runs_beside_ends_with_the_pipeline(tmp_path):
    text = f"cd {tmp_path}; long() {{ sleep 2; touch alive; }}; beside log long; exit 1"
    done, seconds = shell(tmp_path, text)
    time.sleep(max(0.0, 2.5 - seconds))
    assert done.returncode == 1 and not (tmp_path / "alive").exists()
