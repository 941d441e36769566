"""Checks in processes of their own; their module is imported there, so it imports little."""

from __future__ import annotations

import os
import time

from sweet_rl.preflight.processes import why_failed


def _hang() -> None:
    time.sleep(60)


def _die() -> None:
    os._exit(7)


def _complain(word: str) -> str | None:
    return None if word == "well" else word


def test_a_check_that_hangs_dies_or_fails_is_a_reason():
    assert why_failed(_complain, [("well",), ("well",)], 60) is None
    assert why_failed(_complain, [("well",), ("badly",)], 60) == "badly"
    assert why_failed(_die, [()], 60) == "the process ended with exit code 7"
    assert why_failed(_hang, [()], 0.1) == "no result after 0 seconds"
