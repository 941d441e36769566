"""The code blocks of README and manual, found by Sybil, and a check of each command in them that runs nothing.

Every command is of a kind in `CHECKS`, and every block in a language of `LANGUAGES`. The command line of a script is
read by the script's own parser, with its configuration file; the tasks of doit are listed; of other tools the
names that they get from this package are looked up.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest import mock

from scripts import COMMANDS
from sweet_rl import cli
from sweet_rl.cli.groups import arguments
from sweet_rl.task_types import load_domain
from tests.support.command_line import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("scripts", "visualizers", "benchmarks", "configs", "docs", "tests", "sweet_rl", "lab")
# Read by other tools, not by this package.
VARIABLES = {"CUDA_VISIBLE_DEVICES", "HF_HUB_CACHE", "OPENAI_API_KEY", "PYTHONPATH", "HF_TOKEN"}


def blocks(page: Path) -> list:
    """The fenced blocks of a page as Sybil's examples, in order; a Python block runs with `evaluate()`.

    Raises:
        ValueError: a block without a language, or in one that is not in LANGUAGES.
    """
    from sybil.document import Document
    from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

    others = [CodeBlockParser(name, check) for name, check in LANGUAGES.items()]
    document = Document.parse(str(page), PythonCodeBlockParser(), *others)
    found = list(document.examples())
    fences = re.findall(r"^ *```.*$", document.text, re.MULTILINE)
    if len(fences) != 2 * len(found):
        known = {"python", *LANGUAGES}
        raise ValueError(f"{page}: a block in none of the languages {known}: {fences[::2]}")
    return found


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


def check_shell(example: Any) -> None:
    """Check every command of a shell block in the current folder. Raises what the command's parser raises."""
    block = list(commands(example.parsed))
    for variables, words in block:
        for name in variables:
            check_variable(name, block)
        if words:
            check_command(words)


def check_variable(name: str, block: list) -> None:
    provider = "openai-api/" + name.split("_")[0].lower() + "/"  # inspect_ai's scheme for servers
    named = any(word.startswith(provider) for _, words in block for word in words)
    assert name in VARIABLES or named or name in _read_variables(), f"no program reads the variable {name}"


@cache
def _read_variables() -> set[str]:
    """The variables of the environment that scripts and library read."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "scripts").glob("*.sh"))
    names = set(re.findall(r"\$\{([A-Z_]+):?[-+]", text))
    text = (ROOT / "dodo.py").read_text(encoding="utf-8")
    names |= set(re.findall(r'variable\("([A-Z_]+)"', text))
    for folder in ("scripts", "sweet_rl"):
        for path in (ROOT / folder).rglob("*.py"):
            names |= set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', path.read_text(encoding="utf-8")))
    return names


def check_command(words: list[str]) -> None:
    assert words[0] in CHECKS, f"no check for the command {shlex.join(words)}"
    CHECKS[words[0]](words[1:])


def check_python(words: list[str]) -> None:
    if words[0] == "-m":
        if words[1] == "pytest":
            return check_tests(words[2:])
        assert importlib.util.find_spec(words[1]) is not None, words[1]
    else:
        check_script(words)


def check_tests(words: list[str]) -> None:
    for word in words:
        assert word.startswith("-") or (ROOT / word).exists() or word == "not slow", f"no test {word}"


def check_script(words: list[str]) -> None:
    """Read a command line as the script does when it is started, and build its groups of settings."""
    path, taken = ROOT / words[0], []
    assert path.is_file(), f"no script {words[0]}"

    def read(main: Callable, command: list[str] | None = None, released: Any = None) -> None:
        given = cli.parse_flags(main, sys.argv[1:] if command is None else command, released)
        if "--help" not in words:
            arguments(main, given)
        if "task_type" in given:
            load_domain(given["task_type"])
        taken.append(given)

    started = {"argv": words, "path": [str(path.parent), *sys.path]}
    with mock.patch.object(cli, "run", read), mock.patch.multiple(sys, **started), mock.patch.dict(os.environ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            assert end.code == 0 and "--help" in words, shlex.join(words)
            return
    assert len(taken) == 1, f"{words[0]} does not read its command line by run()"


def check_launched(words: list[str]) -> None:
    """A command behind torchrun or DeepSpeed's launcher: the script is read, the launcher's own flags are not."""
    place = next(i for i, word in enumerate(words) if word.endswith(".py") or word == "-m")
    if words[place] == "-m":
        words = ["-m", f"scripts/{words[place + 1].removeprefix('sweet_rl.commands.')}.py", *words[place + 2 :]]
        place = 1
    check_script(words[place:])


def check_installed(words: list[str]) -> None:
    """sweet-rl NAME FLAGS."""
    if words != ["--help"]:
        script = COMMANDS.get(words[0], words[0])
        folder = "visualizers" if script.startswith("visualize") else "scripts"
        check_script([f"{folder}/{script}.py", *words[1:]])


def check_bash(words: list[str]) -> None:
    """A recipe is read by programs that stand for python, doit lists its tasks, and nothing runs."""
    from tests.integration.scripts.test_launchers import listed

    script, *rest = words
    assert (ROOT / script).is_file(), f"no script {script}"
    if script == "scripts/run_tests.sh":
        check_tests(rest)
    elif script == "scripts/reproduce.sh":
        check_doit(rest)
    else:
        noted, done = listed(Path(script).stem, Path.cwd(), *rest, HUMAN_SERVER="node1:8000")
        assert done.returncode == 0 and noted, done.stderr


def check_doit(words: list[str]) -> None:
    """doit knows the tasks and its own flags; nothing runs."""
    from tests.integration.test_dodo import doit

    if words[0] != "list":
        words = ["list", *(word for word in words if not re.fullmatch(r"-n|\d+|info", word))]
    done = doit(*words, OUT=os.path.abspath("listed"))
    assert done.returncode == 0, done.stderr


def check_pip(words: list[str]) -> None:
    """The extras exist, and a pinned version is the lowest that setup.py allows."""
    setup = _setup()
    lowest = dict(
        re.split(r">=", one.split(";")[0].strip(), maxsplit=1)
        for one in [*setup["install_requires"], *sum(setup["extras_require"].values(), [])]
        if one.count(">=") == 1 and "<" not in one
    )
    assert words[0] == "install"
    for word in words[1:]:
        extras = re.fullmatch(r"(?:\.|sweet_rl)\[([\w,]+)\]", word)
        assert extras is None or set(extras[1].split(",")) <= setup["extras_require"].keys(), word
        name, pinned, version = word.partition("==")
        assert not pinned or version.removesuffix(".0") == lowest[name].removesuffix(".0"), word


@cache
def _setup() -> dict:
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    return setup.call_args.kwargs


def check_inspect(words: list[str]) -> None:
    """Tasks and their arguments; the tool itself is run by tests/integration/integrations."""
    from inspect import signature

    from sweet_rl.integrations.benchmark import Benchmark

    source = (ROOT / "sweet_rl" / "integrations" / "inspect_ai.py").read_text(encoding="utf-8")
    tasks = re.findall(r"@task\ndef (\w+)", source)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("sweet_rl/"):
            assert word.removeprefix("sweet_rl/") in tasks, word
        if word == "-T":
            assert after.split("=")[0] in signature(Benchmark).parameters, after


def check_verifiers(words: list[str]) -> None:
    """The environment and the names of its settings; the tool itself is run by tests/integration/integrations."""
    from inspect import signature

    from sweet_rl.integrations.benchmark import Benchmark

    if words[0] == "@":
        return
    assert importlib.util.find_spec(words[0].replace("-", "_")) is not None, words[0]
    for word in words:
        if word.startswith("--env.taskset."):
            assert word.split(".")[2].replace("-", "_") in signature(Benchmark).parameters, word


def not_of_this_package(words: list[str]) -> None:
    """Programs of others whose words name nothing of this package."""


def check_source(words: list[str]) -> None:
    assert words == [".venv/bin/activate"]


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "python": check_python, "torchrun": check_launched, "deepspeed": check_launched, "sweet-rl": check_installed,
    "bash": check_bash, "doit": check_doit, "pip": check_pip,
    "inspect": check_inspect,
    "vf-eval": check_verifiers, "source": check_source,
    **dict.fromkeys(("vllm", "sbatch", "mkdir", "cp", "mkdocs", "lint-imports", "ruff"), not_of_this_package),
}  # fmt: skip


def check_diagram(example: Any) -> None:
    """A flow chart: every script that it names exists, and every arrow ends at boxes that are declared."""
    settings, first, *lines = example.parsed.strip().splitlines()
    assert json.loads(settings.removeprefix("%%{init: ").removesuffix("}%%")) and first.startswith("flowchart ")
    for name in re.findall(r"\[(?:\d )?(\w+_\w+)", example.parsed):
        assert (ROOT / "scripts" / f"{name}.py").is_file(), name
    boxes = re.findall(r"(\w+)(?:\[|\()", example.parsed)
    used = {name for line in lines for name in re.findall(r"(?:^|--?>|-- [^>]*-->)\s*(\w+)", line)}
    assert used <= set(boxes), used - set(boxes)


def check_citation(example: Any) -> None:
    """The BibTeX entry names the title of CITATION.cff's reference."""
    title = re.search(r"title += \{(.+)\}", example.parsed)[1]
    assert example.parsed.count("{") == example.parsed.count("}")
    assert title in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


LANGUAGES = {"bash": check_shell, "mermaid": check_diagram, "bibtex": check_citation}
