"""CPU threads of processes that run side by side."""

from __future__ import annotations

import os

SPINS = "10000"  # of libgomp, whose default is 300,000


def share_cores() -> None:
    """Let waiting OpenMP threads give up their core soon. Call before torch is imported; the environment wins.

    With the default, threads that wait keep their core busy, so that two small models that are trained side by side
    can take many times as long. One model alone is as fast with this setting.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
