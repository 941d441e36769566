"""Every table and figure of the paper: runs what is missing, continues what was stopped, ends in tables and plots.

    bash scripts/reproduce.sh table2 --mini                    the tiny agent, on CPU, 5 seeds
    bash scripts/reproduce.sh all --mini --page results/mini   all tables, and a page of the results
    bash scripts/reproduce.sh table2 --paper --hostname node1:8000 --train_tasks train.jsonl --test_tasks test.jsonl
    bash scripts/reproduce.sh table3 --paper --dry_run         every command with its settings
    bash scripts/reproduce.sh list table2 --mini               every step: U is up to date, R is to be run
    bash scripts/reproduce.sh info seed0/critic --mini         one step: its command, its inputs, why it is to be run

Targets: table2 table3 table4 figure3a figure3b all; with --mini also credit (critics against the oracle; in all) and
pages (Frontend Design). Also a file for doit itself: doit -f workflow/dodo.py list options="table2 --mini".
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from doit import get_var
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from doit.exceptions import TaskFailed
from doit.reporter import ConsoleReporter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from sweet_rl.pipeline import slurm  # noqa: E402
from sweet_rl.pipeline.launch import Local, Slurm  # noqa: E402
from sweet_rl.runs.locks import lock_file  # noqa: E402
from workflow.tables import Tables  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "workflow" / "experiments.yaml").read_text(encoding="utf-8"))
TARGETS = ("table2", "table3", "table4", "figure3a", "figure3b", "credit", "pages")
ADDRESS = "human.address"  # the file with the address of the human's server


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with paths as they are seen from the folder of the call."""
    purpose, _, details = __doc__.partition("\n")
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("reproduce.sh", None, purpose, details, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    for name, (default, text) in {**CONFIG["options"], **CONFIG["paper_options"]}.items():
        text = f"--paper: {text}" if name in CONFIG["paper_options"] else text
        kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default or None}
        parser.add_argument(f"--{name}", help=text, **kind)
    options = parser.parse_args(words)
    for name, (default, _) in CONFIG["paper_options"].items():
        if not options.paper and (getattr(options, name) or default) != default:
            parser.error(f"--{name} needs --paper")
    known = TARGETS[:5] if options.paper else TARGETS
    for target in () if options.targets[0] == "info" else options.targets[options.targets[0] == "list" :]:
        if target not in (*known, "all"):
            parser.error(f"unknown target {target} (there are {' '.join(known)} all; credit and pages need --mini)")
    for name in ("seeds", "iterations", "cores"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be a whole number above 0")
    for name in ("output", "page", "profile", "train_tasks", "test_tasks", "trajectories"):
        setattr(options, name, getattr(options, name) and os.path.abspath(getattr(options, name)))
    for name in ("agent_model", "env_model", "strong_model", "judge", "agent_prompt_path", "user_prompt_path"):
        value = getattr(options, name)  # or a name: on a hub, on a server, of a prompt of the package
        setattr(options, name, os.path.abspath(value) if value and os.path.exists(value) else value)
    if options.paper and not (options.hostname or options.dry_run or options.launcher == "slurm"):
        if options.env_model not in ("mini", "designer") and not os.path.isdir(options.env_model):
            parser.error(f"--hostname is missing: the server of the simulated human {options.env_model}")
    return options


def prepare(options: argparse.Namespace) -> tuple[Tables, Local]:
    """The planned targets, and the launcher of their steps."""
    os.chdir(ROOT)
    profile = options.profile or ("workflow/slurm.yaml" if options.launcher == "slurm" else os.devnull)
    resources, known = yaml.safe_load(Path(profile).read_text(encoding="utf-8")) or {}, dict(vars(options))
    resources = {kind: own or {} for kind, own in resources.items()}
    if options.paper:
        found = subprocess.getstatusoutput("nvidia-smi --list-gpus")
        gpus = len(found[1].splitlines()) if found[0] == 0 else 8 * options.dry_run
        gpus = gpus if options.gpus is None else options.gpus
        for kind, count in {"train": gpus, "dialogues": 1, "candidates": 1, "ranking": 1}.items():
            resources[kind] = {"gpus": min(count, gpus)} | resources.get(kind, {})
        known |= {"gpus": resources["train"]["gpus"], "judge": options.judge or options.agent_model}
        for split in ("train", "test"):
            known[f"frontend_{split}"] = os.path.abspath(f"data/frontend_tasks/{split}.jsonl")
        if known["judge"] == options.agent_model:
            known["judge_hostname"] = options.judge_hostname or options.agent_hostname
        sizes = ["paper", "gpu" if known["gpus"] else "cpu"]
    else:
        cpu = {kind: {"gpus": 0, "nodes": 1, "command": ""} for kind in resources}
        resources = {kind: own | cpu[kind] for kind, own in resources.items()}
        sizes = ["mini", "smoke"] if options.smoke else ["mini"]
    known["out"] = options.output or f"runs/reproduce-{'-'.join(size for size in sizes if size not in ('gpu', 'cpu'))}"
    known["seeds"] = options.seeds or (1 if options.paper else 5)
    if options.paper and options.launcher == "slurm" and not options.hostname:
        known["hostname"] = f"@{known['out']}/{ADDRESS}"
    tables = Tables(CONFIG, known, sizes, {kind: own.get("shards", 1) for kind, own in resources.items()})
    if command := resources.get("train", {}).get("command"):
        tables.values["launch"] = command
    names = [name for name in options.targets if name in (*TARGETS, "all")] or ["all"]
    everything = TARGETS[: 5 if options.paper else 6]
    for name in dict.fromkeys(name for given in names for name in (everything if given == "all" else [given])):
        getattr(tables, name)()
    if options.page and not options.paper:
        tables.page()
    pool = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(known["gpus"] or 0)))
    return tables, Slurm(resources) if options.launcher == "slurm" else Local(resources, pool if options.paper else "")


def tasks(tables: Tables, launcher: Local) -> Iterator[dict]:
    """The steps as tasks of doit, and a task for each target."""
    address = Path(tables.out, ADDRESS)
    human = ["human"] if tables.options["hostname"] == f"@{address}" else []
    if human:
        serve = [(_result, [launcher.serve, f"{address}.log", tables.options["env_model"], address])]
        yield {"basename": "human", "actions": serve, "io": {"capture": False}, "doc": "server of the simulated human"}
    for step in tables.steps.values():
        yield {
            "basename": _name(tables, step.output), "doc": step.name, "meta": {"command": shlex.join(step.words)},
            "actions": [(_result, [launcher.run, step.log, step])], "io": {"capture": False},
            "uptodate": [step.finished], "targets": list(step.outputs),
            "setup": human if step.kind == "dialogues" else [],
            "task_dep": list(dict.fromkeys(_name(tables, path) for path in step.sources)),
        }  # fmt: skip
    for target, made in tables.targets.items():
        yield {"basename": target, "actions": None, "task_dep": [_name(tables, path) for path in made]}


def _name(tables: Tables, path: str) -> str:
    return tables.makers[path].output.removeprefix(f"{tables.out}/")


def _result(run: Callable[..., int], log: str, *arguments: object) -> TaskFailed | None:
    status = run(*arguments)
    end = Path(log).read_text(encoding="utf-8", errors="replace")[-2000:] if status and Path(log).is_file() else ""
    return TaskFailed(f"exit status {status}; its output is in {log} and ends so:\n{end}") if status else None


class Report(ConsoleReporter):
    """A line when a step begins and when it has ended; what failed; the number of steps that were done before."""

    passed = 0

    def execute_task(self, task):
        self.write(f"== {task.name}: {task.doc}\n" if task.actions else "")

    def add_success(self, task):
        self.write(f"-- {task.name}: done\n" if task.actions else "")

    def skip_uptodate(self, task):
        self.passed += 1

    def complete_run(self):
        self.write(f"{self.passed} steps were done before\n" if self.passed else "")


def task_workflow() -> Iterator[dict]:
    """For doit itself."""
    yield from tasks(*prepare(parse(shlex.split(get_var("options", "all")))))


def main(words: list[str]) -> int:
    """Run doit on what the command line names; its exit status."""
    started, options = time.monotonic(), parse(words)
    tables, launcher = prepare(options)
    if options.dry_run:
        for step in tables.steps.values():
            print("\n    ".join([f"== {step.name}\n$ {shlex.join(step.words)}", *step.settings()]))
        return 0
    config = {"backend": "sqlite3", "dep_file": ":memory:", "reporter": Report, "verbosity": 2}
    loader = ModuleTaskLoader({"task_workflow": lambda: tasks(tables, launcher), "DOIT_CONFIG": config})
    doit = DoitMain(loader, config_filenames=())
    if options.targets[0] == "list":
        return doit.run(["list", "--all", "--status", "--sort", "definition"])
    if options.targets[0] == "info":
        return doit.run(["info", *options.targets[1:]])
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    if not options.paper:  # so small a model gains nothing from a second thread, two steps at the same time do
        os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    if lock_file(Path(tables.out, "engine.lock"), wait=False) is None:
        print(f"another call works in {tables.out}: wait for it, or give another --output", file=sys.stderr)
        return 2
    at_once = len(tables.steps) if options.launcher == "slurm" else options.cores or os.cpu_count()
    status = doit.run(["run", "--continue", "-n", str(at_once), "-P", "thread", *tables.targets])
    if options.launcher == "slurm":
        slurm.cancel(slurm.job_name(Path(tables.out, ADDRESS)))
    for table in [Path(tables.results, f"{target}.md") for target in tables.targets] if status == 0 else ():
        print(f"\n{table.stem}\n\n{table.read_text(encoding='utf-8')}" if table.is_file() else "")
    print(f"tables and figures: {tables.results}; {time.monotonic() - started:.0f} s in all")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
