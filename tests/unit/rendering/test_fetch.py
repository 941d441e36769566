"""Tailwind's files come from npm packages, whole and checked; npm is played by a program made here."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from sweet_rl.rendering import fetch
from sweet_rl.runs.errors import UserError

CONTENTS = {"package/a.css": b"p{}", "package/b.js": b"let b", "package/c.js": b"let c"}


def hashed(*paths):
    return {path: hashlib.sha256(CONTENTS[path]).hexdigest() for path in paths}


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """A folder of published archives, an npm that packs from it and logs its arguments, and an empty cache folder."""
    packages = {"one@1.0": hashed("package/a.css"), "two@2.0": hashed("package/b.js", "package/c.js")}
    monkeypatch.setattr(fetch, "PACKAGES", packages)
    hashes = {Path(path).name: sha256 for files in packages.values() for path, sha256 in files.items()}
    monkeypatch.setattr(fetch, "HASHES", hashes)
    registry = tmp_path / "registry"
    registry.mkdir()
    for package, files in packages.items():
        publish(registry, package, {path: CONTENTS[path] for path in files})
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho \"$@\" >> {tmp_path}/log\nfor p in \"$@\"; do case $p in *@*) "
        f"cp {registry}/$(echo $p | tr @ -).tgz . || exit 1;; esac; done\n"
    )  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv(fetch.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    return tmp_path


def publish(registry: Path, package: str, files: dict[str, bytes]) -> None:
    with tarfile.open(registry / f"{package.replace('@', '-')}.tgz", "w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def log(npm: Path) -> list[str]:
    return (npm / "log").read_text().splitlines() if (npm / "log").exists() else []


def test_files_are_fetched_once_and_nothing_else_is_left_behind(npm):
    fetch.fetch()
    fetch.fetch()
    assert log(npm) == ["pack --ignore-scripts --silent one@1.0 two@2.0"]
    assert {path.name: path.read_bytes() for path in (npm / "cache").iterdir()} == {
        Path(path).name: content for path, content in CONTENTS.items()
    }
    assert fetch.read("b.js") == b"let b"


def test_a_changed_or_lost_file_is_refused_when_read_and_only_its_package_is_fetched_again(npm):
    fetch.fetch()
    (npm / "cache" / "a.css").write_bytes(b"p{color:red}")
    with pytest.raises(UserError, match="changed"):
        fetch.read("a.css")
    fetch.fetch()
    assert fetch.read("a.css") == b"p{}" and log(npm)[1:] == ["pack --ignore-scripts --silent one@1.0"]
    (npm / "cache" / "c.js").unlink()
    with pytest.raises(UserError, match="not there"):
        fetch.read("c.js")


@pytest.mark.parametrize("files", [{"package/a.css": b"evil"}, {"package/other.css": b"p{}"}])
def test_a_package_with_other_content_is_refused_and_nothing_of_it_is_kept(npm, files):
    publish(npm / "registry", "one@1.0", files)
    with pytest.raises(UserError, match="one-1.0.tgz"):
        fetch.fetch()
    assert list((npm / "cache").iterdir()) == []


def test_without_npm_or_network_the_message_names_the_command(npm, monkeypatch):
    (npm / "registry" / "two-2.0.tgz").unlink()
    with pytest.raises(UserError, match="from npm: cp: (?s:.*)python -m sweet_rl.rendering.fetch"):
        fetch.fetch()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="no npm(?s:.*)python -m sweet_rl.rendering.fetch"):
        fetch.fetch()


def test_the_npm_of_pypi_is_used_if_that_of_the_system_is_missing_or_fails(npm, monkeypatch):
    commands = [["/nonexistent/npm"], ["false"], [str(npm / "bin" / "npm")]]
    monkeypatch.setattr(fetch, "_npm_commands", lambda: commands)
    fetch.fetch()
    assert fetch.read("a.css") == b"p{}"


def test_a_folder_that_cannot_be_made_is_one_message(npm, monkeypatch):
    (npm / "file").write_text("")
    monkeypatch.setenv(fetch.FOLDER_VARIABLE, str(npm / "file" / "cache"))
    with pytest.raises(UserError, match=fetch.FOLDER_VARIABLE):
        fetch.fetch()


def test_the_folder_is_the_users_cache_unless_the_environment_names_one(monkeypatch):
    monkeypatch.setenv(fetch.FOLDER_VARIABLE, "~/x")
    assert fetch.folder() == Path.home() / "x"
    monkeypatch.delenv(fetch.FOLDER_VARIABLE)
    assert fetch.folder() == Path.home() / ".cache" / "sweet_rl" / "pages"


def test_without_a_folder_of_its_own_it_is_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv(fetch.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch.folder() == tmp_path / "sweet_rl" / "pages"
