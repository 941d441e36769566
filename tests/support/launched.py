"""Servers and scripts in processes of their own, which are ended with their children."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

START_SECONDS = 900.0  # of a server
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@contextlib.contextmanager
def served(words: list[str], port: str, log: Path) -> Iterator[str]:
    """Yield host:port of a server once it answers; end it and its children afterwards."""
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    with open(log, "wb") as output:
        process = subprocess.Popen(words, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            until = time.monotonic() + START_SECONDS
            while True:
                assert process.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5):
                        break
                except urllib.error.HTTPError:
                    break  # transformers serve cannot list its models where there is no cache folder of the hub
                except OSError:
                    time.sleep(1.0)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
