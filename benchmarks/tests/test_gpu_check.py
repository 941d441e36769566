"""benchmarks/gpu_check.py on the CPU: every check passes, and a failed one does not stop the others."""

from __future__ import annotations

import importlib

import pytest

from tests.support.command_line import ROOT


@pytest.fixture
def gpu_check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("gpu_check")


@pytest.mark.slow
def test_every_check_passes_with_tiny_shapes(gpu_check, tmp_path):
    gpu_check.main(cpu=True, output_dir=str(tmp_path))
    page = (tmp_path / "cpu.md").read_text()
    assert "FAILED" not in page and "WRONG" not in page
    # The first loss of six modes and of both timed trainings.
    assert page.count("| ln 2 = 0.693147 within 1e-04 | ok |") == 8
    assert "largest difference between log-probs" in page


def test_a_failed_check_is_on_the_page_and_the_others_go_on(gpu_check, tmp_path, monkeypatch):
    def broken(scale):
        """Breaks."""
        raise ZeroDivisionError("no GPU could do this")

    def wrong(scale):
        """Finds 1 | 2."""
        return [gpu_check.Line("a figure", "1 | 2", "3", False)]

    def fine(scale):
        """Goes on."""
        return [gpu_check.Line("fine", "4")]

    monkeypatch.setattr(gpu_check, "first_loss", wrong)
    monkeypatch.setattr(gpu_check, "shared_rows", broken)
    monkeypatch.setattr(gpu_check, "ranking", fine)
    with pytest.raises(SystemExit) as ended:
        gpu_check.main(cpu=True, output_dir=str(tmp_path), only=["first_loss", "shared_rows", "ranking"])
    assert ended.value.code == 1
    page = (tmp_path / "cpu.md").read_text()
    assert "no GPU could do this" in page and "| a figure | 1 \\| 2 | 3 | WRONG |" in page
    rows = [row for row in page.splitlines() if row.startswith(("| first_loss", "| shared_rows", "| ranking"))]
    assert [row.split(" | ")[2] for row in rows] == ["FAILED |", "FAILED |", "ok |"]
