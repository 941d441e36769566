"""The viewer's server on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sweet_rl.viewer.entries import Collection
from sweet_rl.viewer.serve import make_server


@contextmanager
def serving(collection: Collection) -> Iterator:
    """A server of the collection, which ends with the block."""
    server = make_server(collection)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def address_of(server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/"
