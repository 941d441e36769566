"""The Dockerfile: a pinned base, files that reach the build, an ordinary user who owns what its head mounts."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from tests.support.command_line import ROOT
from tests.support.manual import check_command, check_pip

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
NEEDED = ["setup.py", "README.md", "sweet_rl/models/packaged", "scripts/run_backend.sh", "lab/reproduce/dodo.py"]
LEFT_OUT = [".git/config", ".venv/bin/python", "runs/mini", "sweet_rl/__pycache__"]


def test_the_base_is_pinned_and_the_commands_name_what_exists():
    (image,) = re.findall(r"^FROM (.+)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", image)
    check_pip(re.findall(r"pip install .*", TEXT))
    variables = dict.fromkeys(re.findall(r"-e ([A-Z_]+)=", TEXT), "")
    check_command(variables, re.findall(r"bash scripts/\S+", TEXT)[0].split())


def test_what_the_image_needs_is_copied_and_what_is_large_or_private_is_not():
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert re.findall(r"^COPY .*?(\S+ \S+)$", TEXT, re.MULTILINE) == [". ."]

    def ignored(path: str) -> bool:
        first, last = path.split("/")[0], path.split("/")[-1]
        return any(
            fnmatch(last if pattern.startswith("**/") else first, pattern.removeprefix("**/")) for pattern in patterns
        )

    assert all((ROOT / path).exists() and not ignored(path) for path in NEEDED)
    assert all(map(ignored, LEFT_OUT))


def test_the_image_runs_as_an_ordinary_user_who_owns_the_folder_and_the_cache_of_its_head():
    user = re.findall(r"^USER (.+)$", TEXT, re.MULTILINE)[-1]
    assert user not in ("root", "0") and f'useradd --create-home --uid "$UID" {user}' in TEXT
    assert f"COPY --chown={user}" in TEXT
    folder = re.findall(r"^WORKDIR (.+)$", TEXT, re.MULTILINE)[-1]
    mounted = re.findall(r"-v \S+:(/[^\s\"]+)", TEXT)
    assert mounted and all(path.startswith((f"{folder}/", f"/home/{user}/")) for path in mounted)
