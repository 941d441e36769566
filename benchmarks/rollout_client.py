"""Cost of the rollout client: turns per second on a server that answers immediately, and memory over a long run.

    python benchmarks/rollout_client.py                       # 1,000 dialogues of 10 turns: turns per second
    python benchmarks/rollout_client.py --dialogues 10000     # the same, long enough to show that memory stays constant

Runs scripts/simulate_interactions.py with agent and human on the server. A turn is a message of the agent and the
human's reply. Every record of the output is checked.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from dialogue_server import MODEL, say, serving  # noqa: E402

from sweet_rl.runs.cli import run  # noqa: E402

SCRIPT = Path(__file__).parents[1] / "scripts" / "simulate_interactions.py"


class Lines:
    """Counts the lines of a growing file and reads each of them once."""

    def __init__(self, path: Path) -> None:
        self._path, self._end, self._lines = path, 0, 0

    def count(self) -> int:
        if self._path.exists():
            with open(self._path, "rb") as file:
                file.seek(self._end)
                new = file.read()
            self._end, self._lines = self._end + len(new), self._lines + new.count(b"\n")
        return self._lines


def resident_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def wrong(row: dict, turns: int) -> bool:
    """Return whether a dialogue differs from what the rules of the server give for its task."""
    history = row["dialogue_history"]
    for place, message in enumerate(history):
        if message["role"] == "assistant" and message["content"] != say(history[:place]):
            return True
    return row["ending"] != "answered" or len(history) != 2 * turns


def main(dialogues: int = 1000, turns: int = 10, concurrency: int = 64) -> None:
    """Measures the client."""
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        tasks, output = Path(folder, "tasks.jsonl"), Path(folder, "dialogues.jsonl")
        rows = ({"problem_description": f"Function {n}; turns: {turns} .", "ground_truth": "def f(x): return x",
                 "test_cases": {"test1": "f(1)"}}
                for n in range(dialogues))  # fmt: skip
        tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = [sys.executable, SCRIPT, "--agent_model", MODEL, "--env_model", MODEL, "--agent_hostname", url,
                 "--hostname", url, "--input_path", tasks, "--output_path", output, "--max_turns", turns,
                 "--concurrency", concurrency]  # fmt: skip
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
        memory, step, lines = {}, max(1, dialogues // 10), Lines(output)
        while process.poll() is None:
            time.sleep(0.1)
            try:
                memory.setdefault(lines.count() // step * step, resident_mb(process.pid))
            except (OSError, IndexError, ValueError):
                break
        if process.wait() != 0:
            raise RuntimeError("the run failed")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the client alone: the server still runs
        print(process.stdout.read())
        summary = json.loads(Path(f"{output}.manifest.json").read_text())["summary"]
        ids, bad = set(), 0
        with open(output, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                ids.add(row["id"])
                bad += wrong(row, turns)
    print("memory after so many dialogues, MB: " + ", ".join(f"{n}: {mb:.0f}" for n, mb in sorted(memory.items())))
    print(f"records: {len(ids)} of {dialogues}, wrong: {bad}")
    if bad or len(ids) != dialogues:
        raise RuntimeError("the output is not right")
    milliseconds = 1000 * (used.ru_utime + used.ru_stime) / (dialogues * turns)
    print(f"CPU time per turn: {milliseconds:.2f} ms (start included); load of the machine: {os.getloadavg()[0]:.1f}")
    print(f"turns per second: {summary['turns_per_second']:.0f}")


if __name__ == "__main__":
    run(main)
