"""Every table and figure of the paper: runs what is missing, continues what was stopped, ends in tables and plots.

    bash scripts/reproduce.sh table2 --mini                    the tiny agent, on CPU, 5 seeds
    bash scripts/reproduce.sh all --mini --page results/mini   all tables, and a page of the results
    bash scripts/reproduce.sh table2 --paper --hostname node1:8000 --train_tasks train.jsonl --test_tasks test.jsonl
    bash scripts/reproduce.sh table3 --paper --dry_run         every command with its settings
    bash scripts/reproduce.sh settings --mini                  tries settings of every method on validation tasks
    bash scripts/reproduce.sh list table2 --mini               every step: U is up to date, R is to be run
    bash scripts/reproduce.sh info seed0/critic --mini         one step: its command, its inputs, why it is to be run

Targets: table2 table3 table4 figure3a figure3b all; with --mini also credit (critics against the oracle; in all),
credit_study (every critic, and the policies of four), online (all methods and policy gradients in rounds of new
dialogues), pages (Frontend Design) and settings. Also a file for doit itself:
doit -f workflow/dodo.py list options="table2 --mini".
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

import yaml
from doit import get_var
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from doit.exceptions import TaskFailed

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from sweet_rl.errors import UserError  # noqa: E402
from sweet_rl.names import is_on_hub  # noqa: E402
from sweet_rl.pipeline import ledger, slurm  # noqa: E402
from sweet_rl.pipeline.launch import Local, Slurm  # noqa: E402
from sweet_rl.runs.locks import lock_file  # noqa: E402
from workflow.tables import FIRST_TRY, Tables  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "workflow" / "experiments.yaml").read_text(encoding="utf-8"))
DOIT_CONFIG = {"backend": "sqlite3", "dep_file": ":memory:", "verbosity": 2}  # Step.finished knows what is done
ALL = ("table2", "table3", "table4", "figure3a", "figure3b", "credit")  # the last one only with --mini
TARGETS = (*ALL, "pages", "credit_study", "online", "settings")
ADDRESS = "human.address"  # file of the human's server


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with paths as they are seen from the folder of the call."""
    purpose, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser("reproduce.sh", None, purpose, details, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    for name, (default, text, *choices) in {**CONFIG["options"], **CONFIG["paper_options"]}.items():
        kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default or None}
        kind |= {"choices": choices} if choices else {}
        parser.add_argument(f"--{name}", help="--paper: " * (name in CONFIG["paper_options"]) + text, **kind)
    options = parser.parse_args(words)
    for name, (default, _) in CONFIG["paper_options"].items():
        if not options.paper and (getattr(options, name) or default) != default:
            parser.error(f"--{name} needs --paper")
    known = ALL[:5] if options.paper else TARGETS
    for target in options.targets[options.targets[0] in ("list", "info") :]:
        if target not in (*known, "all") and "/" not in target:  # a step is named after its file: seed0/critic
            parser.error(f"unknown target {target} (there are {' '.join(known)} all; others need --mini)")
    if "settings" in options.targets and {*TARGETS, "all"} - {"settings"} & {*options.targets}:
        parser.error("settings is a call of its own: the tables take what it has chosen")
    counts = options.seeds, options.iterations, options.cores, options.try_seeds
    if any(number is not None and number < 1 for number in counts) or (options.seeds or 1) > FIRST_TRY:
        parser.error("--seeds (to 100), --iterations, --cores and --try_seeds must be whole numbers above 0")
    names = ("pretrained", "agent_model", "env_model", "strong_model", "judge", "agent_prompt_path", "user_prompt_path")
    if options.pretrained and (options.paper or options.world == "hard"):
        parser.error("--pretrained is for the quick world of --mini")
    if options.pretrained and (more := {*options.targets} & {*TARGETS, "all"} - {"table2", "table3"}):
        parser.error(f"--pretrained makes table2 and table3, not {' '.join(sorted(more))}")
    records = ("train_tasks", "test_tasks", "trajectories")
    for name in ("output", "page", "profile", "settings", *records, *names):
        value = getattr(options, name)  # some may be a name instead: on a hub, on a server, of a prompt of the package
        if value and not (is_on_hub(value) if name in records else name in names and not os.path.exists(value)):
            setattr(options, name, os.path.abspath(value))
    return options


def prepare(options: argparse.Namespace) -> tuple[Tables, Local]:
    """The planned targets, and the launcher of their steps."""
    os.chdir(ROOT)
    known, profile = dict(vars(options)), options.profile or "workflow/slurm.yaml" * (options.launcher == "slurm")
    resources = yaml.safe_load(Path(profile).read_text(encoding="utf-8")) if profile else {}
    if options.paper:
        found = len(list(Path("/dev").glob("nvidia[0-9]*"))) or 8 * options.dry_run
        visible = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
        pool = visible or list(map(str, range(found)))
        gpus = len(pool) if options.gpus is None else options.gpus
        for kind, count in {"train": gpus, "dialogues": 1, "candidates": 1, "ranking": 1}.items():
            resources[kind] = {"gpus": min(count, gpus)} | resources.get(kind, {})
        known |= {"gpus": resources["train"]["gpus"], "judge": options.judge or options.agent_model}
        if known["judge"] == options.agent_model:
            known["judge_hostname"] = options.judge_hostname or options.agent_hostname
        sizes = ["paper", "gpu" if known["gpus"] else "cpu"]
    else:
        resources = {kind: own | {"gpus": 0, "nodes": 1, "command": ""} for kind, own in resources.items()}
        sizes = ["mini", *["hard"] * (options.world == "hard")]
        sizes += [*["pretrained"] * bool(options.pretrained), *["smoke"] * options.smoke]
    known["out"] = options.output or f"runs/reproduce-{'paper' if options.paper else '-'.join(sizes)}"
    known["seeds"] = options.seeds or (1 if options.paper else 5)
    no_server = options.env_model in ("mini", "designer") or os.path.isdir(options.env_model)
    if options.paper and not options.hostname and not no_server:
        if options.launcher == "slurm" and "server" in resources:
            known["hostname"] = f"@{known['out']}/{ADDRESS}"
        elif not options.dry_run:
            raise UserError(f"--hostname is missing: the server of the simulated human {options.env_model}.")
    tables = Tables(CONFIG, known, sizes, {kind: own.get("shards", 1) for kind, own in resources.items()})
    if command := resources.get("train", {}).get("command"):
        tables.values["launch"] = command
    of_all = ALL[: 5 if options.paper else 6]
    named = [name for target in options.targets for name in (of_all if target == "all" else [target])]
    for name in dict.fromkeys(name for name in named if name in TARGETS) or of_all:
        getattr(tables, name)()
    if options.page and not options.paper:
        tables.page()
    shared = ",".join(pool[:gpus]) if options.paper else ""
    return tables, Slurm(resources) if options.launcher == "slurm" else Local(resources, shared)


def tasks(tables: Tables, launcher: Local):
    """The steps as tasks of doit, and a task for each target."""
    names = {path: step.output.removeprefix(f"{tables.out}/") for path, step in tables.makers.items()}
    address = Path(tables.out, ADDRESS)
    if human := ["human"] * (tables.options["hostname"] == f"@{address}"):
        serve = [(_result, [launcher.serve, f"{address}.log", tables.options["env_model"], address])]
        yield {"basename": "human", "actions": serve, "io": {"capture": False}, "doc": "server of the simulated human"}
    for step in tables.steps.values():
        yield {
            "basename": names[step.output], "doc": step.name, "title": lambda task: f"{task.name}: {task.doc}",
            "actions": [(_result, [launcher.run, step.log, step])], "io": {"capture": False},
            "uptodate": [step.finished], "targets": step.outputs, "meta": {"command": shlex.join(step.words)},
            "task_dep": list(dict.fromkeys(names[path] for path in step.sources)),
            "setup": human if f"@{address}" in step.words else [],
        }  # fmt: skip
    for target, made in tables.targets.items():
        yield {"basename": target, "actions": None, "task_dep": [names[path] for path in made]}


def _result(run, log: str, *arguments: object) -> TaskFailed | None:
    status = run(*arguments)
    end = Path(log).read_text(errors="replace")[-2000:] if status and Path(log).is_file() else ""
    return TaskFailed(f"exit status {status}; its output is in {log} and ends so:\n{end}") if status else None


def task_workflow():
    """For doit itself."""
    yield from tasks(*prepare(parse(shlex.split(get_var("options", "all")))))


def main(words: list[str]) -> int:
    """Run doit on what the command line names; its exit status."""
    started, options = time.monotonic(), parse(words)
    try:
        tables, launcher = prepare(options)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.dry_run:
        for step in tables.steps.values():
            print("\n    ".join([f"== {step.name}\n$ {shlex.join(step.words)}", *step.settings()]))
        return 0
    found = {"task_workflow": lambda: tasks(tables, launcher), "DOIT_CONFIG": DOIT_CONFIG}
    doit = DoitMain(ModuleTaskLoader(found), config_filenames=())
    if options.targets[0] in ("list", "info"):
        flags = {"list": ["--all", "--status", "--sort", "definition"], "info": options.targets[1:]}
        return doit.run([options.targets[0], *flags[options.targets[0]]])
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    if not options.paper:  # so small a model gains nothing from a second thread, two steps at the same time do
        os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        os.environ |= {} if options.pretrained else {"HF_HUB_OFFLINE": "1"}
    if (lock := lock_file(Path(tables.out, "engine.lock"), wait=False)) is None:
        sys.exit(f"error: another call works in {tables.out}: wait for it, or give another --output")
    at_once = len(tables.steps) if options.launcher == "slurm" else options.cores or os.cpu_count()
    steps = [name for name in options.targets if "/" in name]
    asked = [step for step in tables.steps.values() if step.output.removeprefix(f"{tables.out}/") in steps]
    behind = {one.output: one for step in asked for one in ledger.steps_behind(step, tables.makers)}
    needed = (behind if steps else tables.steps).values()
    tested = {} if tables.tries else ledger.evaluations(needed, tables.makers, tables.out)
    ledger.note(f"{tables.results}/test_ledger.jsonl", tested.values())
    status = doit.run(["run", "--continue", "-P", "thread", "-n", str(at_once), *(steps or tables.targets)])
    if options.launcher == "slurm":
        slurm.cancel(slurm.job_name(Path(tables.out, ADDRESS)))
    try:
        if "settings" in tables.targets and not steps:
            tables.write_log()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    os.close(lock)
    for target in tables.targets if status == 0 and not steps else ():
        if (table := Path(tables.results, f"{target}.md")).is_file():
            print(f"\n{target}\n\n{table.read_text(encoding='utf-8')}")
    print(f"tables and figures: {tables.results}; {time.monotonic() - started:.0f} s in all")
    return min(status, 1)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command continues")
