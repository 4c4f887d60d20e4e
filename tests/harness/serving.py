"""Runs a server of the standard library in a thread for as long as a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread
from typing import Final

POLL_SECONDS: Final = 0.01
"""How often the server looks whether it is to end; its own half second would be the end of each block."""


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Serve in a thread, and close the server when the block ends, also where it raises.

    A server whose socket is closed under its thread spins for the rest of the run.
    """
    with server:
        thread = Thread(target=server.serve_forever, args=(POLL_SECONDS,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
