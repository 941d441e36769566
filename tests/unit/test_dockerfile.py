"""A lint of the Dockerfile: a pinned base, files that reach the build, commands that exist, an ordinary user."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatch
from itertools import accumulate

import pytest

from tests.support.command_line import ROOT
from tests.support.manual import check_pip, check_variable

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
# What the install and the recipes of the image read.
NEEDED = ["setup.py", "pyproject.toml", "README.md", "LICENSE.md", "sweet_rl/__init__.py", "sweet_rl/prompts",
          "scripts/run_backend.sh", "configs/paper/backend/critic.yaml", "visualizers/plot_results.py",
          "dodo.py", "sweet_rl_colbench.py", "sweet_rl/models/packaged/mini"]  # fmt: skip


def instructions(text: str) -> list[tuple[str, str]]:
    """(keyword, arguments) of every instruction, with continued lines joined and comments left out."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def arguments(keyword: str) -> list[str]:
    return [value for name, value in instructions(TEXT) if name == keyword]


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Whether a pattern of .dockerignore matches the path or a folder above it; `**/` stands for any folders."""
    above = list(accumulate(path.split("/"), "{}/{}".format))
    return any(
        fnmatch(place.rpartition("/")[2] if pattern.startswith("**/") else place, pattern.removeprefix("**/"))
        and (pattern.startswith("**/") or place.count("/") == pattern.count("/"))
        for pattern in patterns
        for place in above
    )


def test_every_instruction_is_one_of_docker_and_the_first_names_a_pinned_base():
    known = {"FROM", "ENV", "RUN", "ARG", "WORKDIR", "COPY", "USER", "CMD"}
    assert {name for name, _ in instructions(TEXT)} <= known
    assert instructions(TEXT)[0][0] == "FROM"
    for image in arguments("FROM"):
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*(@sha256:[0-9a-f]{64})?", image) and ":latest" not in image


@pytest.mark.parametrize(
    ("path", "patterns", "ignored"),
    [
        (".git/config", [".git"], True),
        (".github/x", [".git"], False),
        ("sweet_rl/__pycache__/a.pyc", ["**/__pycache__"], True),
        ("sweet_rl/runs/locks.py", ["runs"], False),
        ("runs/a", ["runs"], True),
        (".venv3/bin", [".venv*"], True),
    ],
)
def test_paths_are_matched_as_docker_does(path, patterns, ignored):
    assert is_ignored(path, patterns) is ignored


def test_what_the_image_needs_is_copied_and_what_is_large_or_private_is_not():
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert [value.split()[-2:] for value in arguments("COPY")] == [[".", "."]]
    for path in NEEDED:
        assert (ROOT / path).exists(), path
        assert not is_ignored(path, patterns), path
    for path in (".git/config", ".venv/bin/python", "runs/mini/table.md", "sweet_rl/__pycache__/errors.pyc"):
        assert is_ignored(path, patterns), path


def test_the_commands_in_it_and_in_its_head_name_what_exists():
    run = [command.split() for value in arguments("RUN") for command in value.split("&&")]
    installs = [shlex.split(" ".join(words[1:])) for words in run if words[0] == "pip"]
    assert installs
    for words in installs:
        check_pip(words)
    for words in run:
        if words[:2] == ["apt-get", "install"]:
            assert "--no-install-recommends" in words and ["rm", "-rf", "/var/lib/apt/lists/*"] in run
    named = re.findall(r"(?:bash|python) ((?:scripts|benchmarks)/[\w./]+)", TEXT)
    assert named
    for path in named:
        assert (ROOT / path).is_file(), path
    for name in re.findall(r"-e ([A-Z_]+)=", TEXT):
        check_variable(name, [])


def test_the_image_runs_as_an_ordinary_user_who_owns_the_folder_and_the_cache_of_its_head():
    user = arguments("USER")[-1]
    assert user not in ("root", "0")
    assert any(f'useradd --create-home --uid "$UID" {user}' in value for value in arguments("RUN"))
    assert f"--chown={user}" in arguments("COPY")[0]
    mounted = re.findall(r"-v \S+:(/[^\s\"]+)", TEXT)
    folder = arguments("WORKDIR")[-1]
    assert mounted and all(path.startswith((f"{folder}/", f"/home/{user}/")) for path in mounted)
