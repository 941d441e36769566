"""The code blocks of README and manual, a check of each command in them that runs nothing, and a way to run one."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from unittest import mock

from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs import cli
from sweet_rl.runs.cli import arguments
from sweet_rl.runs.released import OURS, Released
from tests.support.command_line import ROOT, call

PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted(ROOT.glob("docs/*.md"))]
# Read by other programs, not by this package.
VARIABLES = {"CUDA_VISIBLE_DEVICES", "HF_HUB_CACHE", "OPENAI_API_KEY", "PYTHONPATH", "HF_TOKEN"}
OTHER_PROGRAMS = {
    "cat",
    "cp",
    "vllm",
    "sbatch",
    "mkdir",
    "mkdocs",
    "lint-imports",
    "ruff",
    "source",
    "inspect",
    "vf-eval",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(found), f"{page}: a block without a language"
    return found


def page_commands(page: Path, end: str) -> list[list[str]]:
    """The words of the commands of a page before the heading `end`, without those of mkdir."""
    text = page.read_text(encoding="utf-8").partition(end)[0]
    found = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [words for block in found for _, words in commands(block) if words[0] != "mkdir"]


def commands(text: str) -> Iterator[tuple[dict[str, str], list[str]]]:
    """(variables that are set, words) of every command of a shell block; the words of `export` are variables."""
    for line in text.replace("\\\n", " ").splitlines():
        for between, group in groupby(shlex.split(line, comments=True), "&&".__eq__):
            words, variables = [] if between else list(group), {}
            if words[:1] == ["export"]:
                words.pop(0)
            while words and re.match(r"[A-Za-z_]+=", words[0]):
                name, _, value = words.pop(0).partition("=")
                variables[name] = value
            if words or variables:
                yield variables, words


def check_command(variables: dict[str, str], words: list[str]) -> None:
    """Raise AssertionError or UserError if a program, script, flag, setting, file or variable does not exist."""
    for name in variables.keys() - VARIABLES:
        assert name.startswith(("LOCAL_", "HUMAN_")) or name in _read_variables(), (
            f"no program reads the variable {name}"
        )
    program, *rest = words or ["export"]
    if program in ("python", "torchrun", "deepspeed"):
        place = next((i for i, word in enumerate(rest) if word.endswith(".py") or word == "-m"), 0)
        if rest[place : place + 2] == ["-m", "pytest"]:
            assert all((ROOT / word).exists() for word in rest if word.startswith("tests/")), rest
        elif rest[place] == "-m":
            check_script([_file_of(rest[place + 1]), *rest[place + 2 :]])
        else:
            check_script(rest[place:])
    elif program == "sweet-rl":
        script = rest[0]
        check_script([f"{'visualizers' if script.startswith('visualize') else 'scripts'}/{script}.py", *rest[1:]])
    elif program == "bash":
        assert (ROOT / rest[0]).is_file(), f"no script {rest[0]}"
        check_tasks(rest[1:] if rest[0].endswith("reproduce.sh") else [])
    elif program == "doit":
        check_tasks(word for word in rest if word not in ("list", "info"))
    elif program == "pip":
        check_pip(rest)
    else:
        assert program in OTHER_PROGRAMS | {"export"}, f"no program {program}"


def _file_of(module: str) -> str:
    """The file of a module of the laboratory, or of a script that is installed as `sweet_rl.commands.NAME`."""
    if module.startswith("lab."):
        return module.replace(".", "/") + ".py"
    return f"scripts/{module.rpartition('.')[2]}.py"


@cache
def _read_variables() -> set[str]:
    """The variables of the environment that recipes and library read."""
    files = [
        *ROOT.glob("scripts/*.sh"),
        ROOT / "lab" / "reproduce" / "dodo.py",
        *ROOT.glob("scripts/*.py"),
        *ROOT.glob("sweet_rl/**/*.py"),
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    return set(re.findall(r'(?:\$\{|variable\("|environ(?:\.get\(|\[)")([A-Z_]+)\b', text))


def check_script(words: list[str]) -> None:
    """Read a command line as the script does when it is started, and build its groups of settings."""
    path, taken = ROOT / words[0], []
    assert path.is_file(), f"no script {words[0]}"

    def read(main: Callable, command: list[str] | None = None, released: Released = OURS) -> None:
        given = cli.parse_flags(main, sys.argv[1:] if command is None else command, released)
        arguments(main, given)
        if "task_type" in given:
            load_domain(given["task_type"])
        taken.append(given)

    keys = {name: "key" for flag, name in zip(words, words[1:], strict=False) if flag.endswith("api_key_variable")}
    started = {"argv": words, "path": [str(path.parent), *sys.path]}
    with mock.patch.object(cli, "run", read), mock.patch.multiple(sys, **started), mock.patch.dict("os.environ", keys):
        runpy.run_path(str(path), run_name="__main__")
    assert len(taken) == 1, f"{words[0]} does not read its command line by run()"


def check_tasks(words) -> None:
    """The tasks and steps of doit are defined in dodo.py."""
    recipe = (ROOT / "lab" / "reproduce" / "dodo.py").read_text(encoding="utf-8")
    defined = {"steps", *re.findall(r"^def task_(\w+)", recipe, re.MULTILINE)}
    for word in words:
        if re.match("[a-z]", word) and word not in ("definition", "status"):
            assert word.partition(":")[0] in defined, f"no task {word}"


def check_pip(words: list[str]) -> None:
    """The extras of this package exist."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    for extras in re.findall(r"(?:\.|sweet_rl)\[([\w,]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= setup.call_args.kwargs["extras_require"].keys(), extras


def run_command(words: list[str], changes: dict[str, dict[str, object]]) -> str:
    """Run a command of the manual in this process, with other values of some flags by script; return what it prints."""
    if words[0] == "sweet-rl":
        words = ["python", f"scripts/{words[1]}.py", *words[2:]]
    program, script, *flags = words
    assert program == "python"
    if script == "-m":
        script, *flags = flags
    for name, value in changes.get(Path(script).stem, {}).items():
        if f"--{name}" in flags:
            flags[flags.index(f"--{name}") + 1] = str(value)
        else:
            flags += [f"--{name}", str(value)]
    done = call(script if script.startswith("lab.") else f"../{script}", *flags)
    assert done.code == 0, f"{shlex.join(words)}\n{done.out}\n{done.err}"
    return done.out
