"""Versions that do not fit each other, and a compiler that does not compile."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sweet_rl.preflight import versions
from sweet_rl.preflight.versions import check_compiler, check_versions


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts the metadata of packages onto the path, as an installation of them has it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, number: str, *requirements: str) -> None:
        folder = tmp_path / f"{name}-{number}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}"]
        lines += [f"Requires-Dist: {one}" for one in requirements]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")

    return install


def failures(needed: set[str] = frozenset()) -> list[str]:
    return [finding.text for finding in check_versions(set(needed), False) if finding.state == "FAILED"]


def test_a_package_that_wants_another_version_than_the_installed_one_is_a_failure(installed):
    assert failures() == [], "the environment of the tests itself"
    local = version("torch")
    installed("vllm", "0.32.0", "transformers<5", f"torch=={local.partition('+')[0]}", 'numpy<1; extra == "old"')
    (text,) = failures()
    assert f"vllm 0.32.0 wants transformers<5, found {version('transformers')}" in text


def test_a_version_below_the_one_that_setup_names_is_a_failure(installed):
    installed("sweet_rl", "9.9", 'deepspeed>=99; extra == "deepspeed"', 'peft>=0.0.1; extra == "lora"')
    installed("deepspeed", "0.1")
    installed("peft", "0.1")
    (text,) = (text for text in failures() if "sweet_rl" in text)
    assert "sweet_rl 9.9 wants deepspeed>=99, found 0.1" in text


def test_what_a_step_needs_and_is_not_installed_is_a_failure(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    (text,) = failures({"deepspeed"})
    assert "not installed: deepspeed, torch, transformers" in text


def test_versions_that_were_not_tested_on_gpus_are_a_warning(installed, monkeypatch, tmp_path):
    (tmp_path / "constraints-gpu.txt").write_text(
        f"# tested\nvllm==0.32.0\ntorch=={version('torch').partition('+')[0]}\n"
    )
    monkeypatch.setattr(versions, "CONSTRAINTS", tmp_path / "constraints-gpu.txt")
    installed("vllm", "0.33.0")
    (text,) = (finding.text for finding in check_versions(set(), True) if finding.state == "warning")
    assert "vllm 0.32.0 (here 0.33.0)" in text and "torch" not in text


def test_a_compiler_that_is_missing_or_fails_is_a_failure_where_it_is_needed(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_compiler(needed=True).state == "FAILED" and check_compiler(needed=False).state == "warning"
    (tmp_path / "mycc").write_text("#!/bin/sh\necho 'mycc: out of licences' >&2; exit 1\n")
    (tmp_path / "mycc").chmod(0o755)
    monkeypatch.setenv("CC", "mycc")
    headers = tmp_path / "include"
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(headers))
    assert f"no {headers}/Python.h" in check_compiler(needed=True).text
    headers.mkdir()
    Path(headers, "Python.h").touch()
    assert "out of licences" in check_compiler(needed=True).text
