"""What attacks achieve here and on the in-process way of working: a table, and the number that succeed here last.

    python benchmarks/attacks.py --output_path benchmarks/attacks.md

Every attack of attack_answers.py is graded in a process of its own in a process namespace of its own (Linux, util-linux
`unshare`), because in-process they kill, hang and fork; with a secret in its environment, its command line and a file,
and a port that somebody listens on. An attack succeeds if any test passes or it gets no reward, if the secret is in
what the answer returned, a file is written or gone, somebody connects, a process is left, the grading process dies,
hangs or takes a gigabyte, or if an honest answer after it is not graded 1.0, or a wrong one not 0.0.
"""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attack_answers import ATTACKS, CALLS, KINDS, REFERENCE, WRONG

SECRET = "CANARY-5f1e"
SECONDS = 20
GIGABYTE = 1 << 30


def graded(way: str, kind: str, name: str, folder: str, port: str) -> dict:
    """Grade an attack, then an honest and a wrong answer, in this process."""
    answer = ATTACKS[kind, name].replace("FOLDER", folder).replace("PORT", port)
    seen = []
    if way == "in process":
        from soak_grading import grade_in_process

        rewards = [grade_in_process(REFERENCE, text, CALLS) for text in (answer, REFERENCE, WRONG)]
        try:
            signal.alarm(2)
            names: dict = {}
            exec(answer, names)
            seen.append(repr(names["f"](1))[:2000])
        except Exception:
            pass
        signal.alarm(0)
    else:
        from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
        from sweet_rl.runs.records import Task

        with CodeGrader(timeout=0.5, memory_mb=128, workers=1, sandbox=way) as grader:
            grades = [grader.grade(Task("", REFERENCE, CALLS), text) for text in (answer, REFERENCE, WRONG)]
        seen = [str(test) for test in grades[0].evidence["tests"]]
        rewards = [grade.reward for grade in grades]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"rewards": rewards, "seen": seen, "memory": memory}


def attempt(way: str, kind: str, name: str) -> str:
    """What the attack achieved, or "". The first process of a namespace: what it leaves are its children."""
    folder, elsewhere = tempfile.mkdtemp(), tempfile.mkdtemp()
    Path(folder, "canary.txt").write_text(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        program = [sys.executable, os.path.abspath(__file__), "--grade", way, kind, name, folder, port, SECRET]
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (5 << 29, 5 << 29))  # noqa: E731
        with open(f"{folder}.out", "w+b") as output:
            victim = subprocess.Popen(
                program, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, preexec_fn=limit,
                env=dict(os.environ, CANARY=SECRET), start_new_session=True, cwd=elsewhere,
            )  # fmt: skip
            try:
                victim.wait(SECONDS)
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
            output.seek(0)
            lines = output.read().decode("utf-8", "replace").splitlines()
        server.settimeout(0)
        try:
            server.accept()[0].close()
            connected = True
        except OSError:
            connected = False
    found = _achieved(lines, ended, connected, sorted(os.listdir(folder)))
    if not found and _left_behind(victim.pid):
        found = "leaves a process behind"
    shutil.rmtree(folder)
    shutil.rmtree(elsewhere)
    os.unlink(f"{folder}.out")
    return found


def _achieved(lines: list[str], ended: bool, connected: bool, files: list[str]) -> str:
    if connected:
        return "reaches the network"
    if files != ["canary.txt"]:
        return "changes files"
    if not ended:
        return "hangs the run"
    try:
        verdict = json.loads(lines[-1])
        attack, honest, wrong = verdict["rewards"]
    except (ValueError, LookupError, TypeError):
        return "ends the run"
    if any(SECRET in text for text in verdict["seen"]):
        return "reads a secret"
    if attack is None:
        return "escapes its grade"
    if attack:
        return "full marks" if attack == 1.0 else "marks"
    if honest != 1.0 or wrong != 0.0:
        return "corrupts later grading"
    return "takes a gigabyte of the grader" if verdict["memory"] > GIGABYTE else ""


def _left_behind(victim: int) -> bool:
    """Whether a process of this namespace is still there. `unshare` made this process its first."""
    time.sleep(0.1)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in (os.getpid(), victim):
            try:
                state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z":
                return True
    return False


def in_namespace(way: str, kind: str, name: str) -> str:
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc",
               sys.executable, __file__, "--attempt", way, kind, name]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * SECONDS)
    if not done.stdout.startswith("achieved:"):
        raise SystemExit(f"{kind}, {name}: the attempt could not be made: {done.stdout}{done.stderr}")
    return done.stdout.removeprefix("achieved:").strip()


def table(output_path: str | None, sandbox: str) -> None:
    outcomes: dict[str, dict] = {"in process": {}, sandbox: {}}
    executor = ThreadPoolExecutor(os.cpu_count())
    tried = {(way, attack): executor.submit(in_namespace, way, *attack) for attack in ATTACKS for way in outcomes}
    for (way, (kind, name)), future in tried.items():
        if found := future.result():
            outcomes[way][kind, name] = found
            print(f"{way}: {kind}, {name}: {found}", flush=True)
    counts = {way: Counter(found.values()) for way, found in outcomes.items()}
    lines = ["| kind | attacks | succeed in process | succeed here |", "| --- | ---: | ---: | ---: |"]
    for kind, attacks in KINDS.items():
        succeed = [str(sum(one == kind for one, _ in found)) for found in outcomes.values()]
        lines.append(f"| {kind} | {len(attacks)} | {' | '.join(succeed)} |")
    summary = [
        f"{len(ATTACKS)} attacks of {len(KINDS)} kinds; sandbox {sandbox}; Python {sys.version.split()[0]}.",
        "In process: " + ", ".join(f"{what} {n}" for what, n in counts["in process"].most_common()) + ".",
        f"Attacks that succeed: in process {counts['in process'].total()}, here {counts[sandbox].total()}",
        *(f"Here: {kind}, {name}: {found}" for (kind, name), found in outcomes[sandbox].items()),
    ]
    if output_path:
        title = f"# Attacks on graders\n\n    python benchmarks/attacks.py --output_path {output_path}\n\n"
        what = " ".join((__doc__ or "").split("\n\n")[2].split())
        Path(output_path).write_text(title + what + "\n\n" + "\n\n".join(summary) + "\n\n" + "\n".join(lines) + "\n")
    print("\n".join(summary))


def main(output_path: str | None = None, sandbox: str = "seccomp") -> None:
    """Try every attack both ways.

    Args:
        output_path: a Markdown file for the table.
        sandbox: the level here.
    """
    table(output_path, sandbox)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--grade"]:
        print(json.dumps(graded(*sys.argv[2:7])))
        sys.stdout.flush()
        os._exit(0)
    elif sys.argv[1:2] == ["--attempt"]:
        print("achieved:", attempt(*sys.argv[2:5]))
    else:
        from sweet_rl.runs.cli import run

        run(main)
