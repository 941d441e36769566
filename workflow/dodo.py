"""Every table and figure of the paper: runs what is missing, continues what was stopped, ends in tables and plots.

    bash scripts/reproduce.sh table2 --mini                    the tiny agent, on CPU, 5 seeds
    bash scripts/reproduce.sh all --mini --page results/mini   all tables, and a page of the results
    bash scripts/reproduce.sh table2 --paper --hostname node1:8000 --train_tasks train.jsonl --test_tasks test.jsonl
    bash scripts/reproduce.sh table3 --paper --dry_run         every command with its settings
    bash scripts/reproduce.sh list table2 --mini               every step: U is up to date, R is to be run
    bash scripts/reproduce.sh info seed0/critic --mini         one step: its command, its inputs, why it is to be run

Targets: table2 table3 table4 figure3a figure3b all; with --mini also credit (critics against the oracle; in all) and pages
(Frontend Design). This is also a file for doit itself: doit -f workflow/dodo.py list options="table2 --mini".
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml
from doit import get_var
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from doit.exceptions import TaskFailed
from doit.reporter import ConsoleReporter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from sweet_rl.errors import UserError  # noqa: E402
from sweet_rl.runs import slurm  # noqa: E402
from sweet_rl.runs.locks import lock_file  # noqa: E402
from workflow.launchers import Local, Slurm  # noqa: E402
from workflow.steps import Plan, Step  # noqa: E402
from workflow.tables import Tables  # noqa: E402

EXPERIMENTS = yaml.safe_load((ROOT / "workflow" / "experiments.yaml").read_text(encoding="utf-8"))
ADDRESS, SCRIPTED = "human.address", ("mini", "designer")  # the file of the human's server; humans that need none
TARGETS = ("table2", "table3", "table4", "figure3a", "figure3b", "credit", "pages")


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with paths as they are seen from the folder of the call."""
    purpose, _, details = __doc__.partition("\n")
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("reproduce.sh", None, purpose, details, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    for name, (default, text) in {**EXPERIMENTS["options"], **EXPERIMENTS["paper_options"]}.items():
        text = f"--paper: {text}" if name in EXPERIMENTS["paper_options"] else text
        kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default or None, "metavar": "X"}
        parser.add_argument(f"--{name}", help=text, **kind)
    options = parser.parse_args(words)
    if extra := [name for name, (old, _) in EXPERIMENTS["paper_options"].items() if getattr(options, name) not in (old, None)]:
        if not options.paper:
            parser.error(f"--{extra[0]} needs --paper")
    for name in ("seeds", "iterations"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be a whole number above 0")
    if options.targets[0] != "info":
        known = TARGETS[:5] if options.paper else TARGETS
        for target in options.targets[options.targets[0] == "list" :]:
            if target not in (*known, "all"):
                parser.error(f"unknown target {target} (there are {' '.join(known)} all; credit and pages need --mini)")
    for name in ("output", "page", "profile", "train_tasks", "test_tasks", "trajectories"):
        setattr(options, name, getattr(options, name) and os.path.abspath(getattr(options, name)))
    for name in ("agent_model", "env_model", "strong_model", "judge", "agent_prompt_path", "user_prompt_path"):
        value = getattr(options, name)  # or a name: on a hub, on a server, of a prompt of the package
        setattr(options, name, os.path.abspath(value) if value and os.path.exists(value) else value)
    return options


def prepare(options: argparse.Namespace) -> tuple[Tables, Local]:
    """The planned targets, and the launcher of their steps."""
    os.chdir(ROOT)
    profile = options.profile or (ROOT / "workflow" / "slurm.yaml" if options.launcher == "slurm" else os.devnull)
    resources = yaml.safe_load(Path(profile).read_text(encoding="utf-8")) or {}
    given, smoke = vars(options), options.smoke and not options.paper
    if options.paper:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True).stdout if shutil.which("nvidia-smi") else b""
        found = len(listed.splitlines()) or 8 * options.dry_run
        gpus = next(n for n in (options.gpus, (resources.get("train") or {}).get("gpus"), found) if n is not None)
        kinds = {"train": gpus, "dialogues": 1, "candidates": 1, "ranking": 1}
        resources |= {kind: {"gpus": min(n, gpus), **(resources.get(kind) or {})} for kind, n in kinds.items()}
        given |= {"gpus": resources["train"]["gpus"], "frontend_train": os.path.abspath("data/frontend_tasks/train.jsonl")}
        given |= {"frontend_test": os.path.abspath("data/frontend_tasks/test.jsonl"), "judge": options.judge or options.agent_model}
        if given["judge"] == options.agent_model:
            given["judge_hostname"] = options.judge_hostname or options.agent_hostname
        sizes = ["paper", "gpu" if given["gpus"] else "cpu"]
    else:
        resources = {kind: {k: v for k, v in (own or {}).items() if k not in ("gpus", "nodes", "command")} for kind, own in resources.items()}
        sizes = ["mini", *["smoke"] * smoke]
    default = "runs/reproduce-paper" if options.paper else f"runs/reproduce-mini{'-smoke' if smoke else ''}"
    given |= {"out": options.output or default, "seeds": options.seeds or (1 if options.paper else 5)}
    if options.paper and not options.hostname and options.env_model not in SCRIPTED and not Path(options.env_model).is_dir():
        if options.launcher == "slurm" and resources.get("server"):
            given["hostname"] = f"@{Path(given['out'], ADDRESS)}"
        elif not options.dry_run:
            raise UserError(f"--hostname is missing: the server of the simulated human {options.env_model}.")
    plan = Plan(given, sizes, {kind: own.get("shards", 1) for kind, own in resources.items()})
    if command := (resources.get("train") or {}).get("command"):
        plan.values["launch"] = command
    tables = Tables(plan)
    wanted = [target for target in options.targets if target in (*TARGETS, "all")] or ["all"]
    wanted = [name for target in wanted for name in ([target] if target != "all" else TARGETS[: 5 if options.paper else 6])]
    for target in dict.fromkeys(wanted):
        getattr(tables, target)()
    if options.page:
        tables.page()
    if options.launcher == "slurm":
        return tables, Slurm(resources)
    pool = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(given["gpus"] or 0)))
    return tables, Local(resources, pool if options.paper else "")


class Report(ConsoleReporter):
    """A line when a step begins and when it ends; what failed, with the end of its log; steps of earlier calls are counted."""

    passed = 0

    def execute_task(self, task):
        if task.actions:
            self.write(f"== {task.name}: {task.doc}\n")

    def add_success(self, task):
        if task.actions:
            self.write(f"-- {task.name}: done\n")

    def skip_uptodate(self, task):
        self.passed += 1

    def complete_run(self):
        self.write(f"{self.passed} steps were done before\n" * (self.passed > 0))


def tasks(tables: Tables, launcher: Local):
    """The steps as tasks of doit, and a task for each target."""
    plan, human = tables.plan, []
    address = Path(plan.out, ADDRESS)
    if plan.options["hostname"] == f"@{address}":
        human = ["human"]
        serve = [(_done, [launcher.serve, f"{address}.log", plan.options["env_model"], address])]
        yield {"basename": "human", "actions": serve, "io": {"capture": False}, "doc": "server of the simulated human"}
    for step in plan.steps.values():
        yield {
            "basename": _task_name(plan, step), "doc": step.name, "meta": {"command": shlex.join(step.words)},
            "actions": [(_done, [launcher.run, step.log, step])], "io": {"capture": False}, "uptodate": [step.finished],
            "targets": step.outputs, "setup": human if step.kind == "dialogues" else [],
            "task_dep": list(dict.fromkeys(_task_name(plan, plan.makers[path]) for path in step.sources)),
        }  # fmt: skip
    for target, made in tables.made.items():
        outputs = [_task_name(plan, plan.steps[output]) for output in made]
        yield {"basename": target, "actions": None, "task_dep": outputs, "doc": f"{len(outputs)} tables and figures"}


def _task_name(plan: Plan, step: Step) -> str:
    return step.output.removeprefix(f"{plan.out}/")


def _done(run, log: str, *arguments) -> TaskFailed | None:
    status = run(*arguments)
    if status == 0:
        return None
    tail = Path(log).read_text(encoding="utf-8", errors="replace")[-2000:] if Path(log).is_file() else ""
    return TaskFailed(f"exit status {status}; its output, whose end follows, is in {log}\n{tail}")


def task_workflow():
    """For doit itself."""
    yield from tasks(*prepare(parse(shlex.split(get_var("options", "all")))))


def main(words: list[str]) -> int:
    """Run doit on what the command line names."""
    started, options = time.monotonic(), parse(words)
    tables, launcher = prepare(options)
    plan, slurmed = tables.plan, options.launcher == "slurm"
    if options.dry_run:
        for step in plan.steps.values():
            print("\n    ".join([f"== {step.name}\n$ {shlex.join(step.words)}", *step.settings()]))
        return 0
    config = {"backend": "sqlite3", "dep_file": ":memory:", "reporter": Report, "verbosity": 2}
    doit = DoitMain(ModuleTaskLoader({"task_workflow": lambda: tasks(tables, launcher), "DOIT_CONFIG": config}), config_filenames=())
    if options.targets[0] == "list":
        return doit.run(["list", "--all", "--status", "--sort", "definition"])
    if options.targets[0] == "info":
        return doit.run(["info", *options.targets[1:]])
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    if not options.paper:  # one thread each: so small a model gains nothing from a second, two steps at the same time do
        os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    lock = lock_file(Path(plan.out, "engine.lock"), wait=False)
    if lock is None:
        print(f"reproduce.sh: another call works in {plan.out}: wait for it, or give another --output", file=sys.stderr)
        return 2
    at_once = len(plan.steps) if slurmed else options.cores or os.cpu_count()
    status = doit.run(["run", "--continue", "-n", str(at_once), "-P", "thread", *tables.made])
    if slurmed:
        slurm.cancel(slurm.job_name(Path(plan.out, ADDRESS)))
    for target in tables.made if status == 0 else ():
        text = Path(tables.results, f"{target}.md")
        print(f"\n{target}\n\n{text.read_text(encoding='utf-8')}" if text.is_file() else "")
    print(f"tables and figures: {tables.results}; {time.monotonic() - started:.0f} s in all")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
