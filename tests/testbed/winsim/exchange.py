"""One question to a fleet over its control socket, and its answer."""

from __future__ import annotations

import http.client
import json
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from testbed.control import address
from testbed.errors import TestbedError
from testbed.winsim.replies import Refusal

if TYPE_CHECKING:
    from pathlib import Path

ASK_TIMEOUT_SECONDS: Final = 10.0
"""An answer from memory comes in milliseconds; the rest is for a machine under full load."""
ACT_TIMEOUT_SECONDS: Final = 120.0
"""The slowest verbs delete Nodes, at some hundred a second: enough for 5,000 on a busy machine."""


def exchange(socket_path: Path, method: str, target: str, *, body: object = None) -> bytes:
    """Ask the fleet that listens on a socket and return the body of its answer.

    Raises:
        TestbedError: no fleet answers, or the fleet refuses.

    """
    timeout_seconds = ASK_TIMEOUT_SECONDS if body is None else ACT_TIMEOUT_SECONDS
    connection = _UnixConnection(socket_path, timeout_seconds=timeout_seconds)
    try:
        connection.request(method, target, body=None if body is None else json.dumps(body))
        answer = connection.getresponse()
        content = answer.read()
    except TimeoutError as error:
        raise TestbedError(
            f"the simulated nodes at {socket_path} did not answer within {timeout_seconds:.0f} s; "
            "they may still do what was requested"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise TestbedError(
            f"no simulated nodes answer at {socket_path} ({error}); they are there once a testbed with "
            "--windows or --linux over 0 has started"
        ) from error
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        raise TestbedError(_refusal(answer.status, content))
    return content


def _refusal(status: int, content: bytes) -> str:
    try:
        return Refusal.model_validate_json(content).error
    except ValueError:
        return f"the simulated nodes answered {status}: {content[:500].decode(errors='replace')}"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket; the host is a name for the header only."""

    def __init__(self, path: Path, *, timeout_seconds: float) -> None:
        super().__init__("winsim", timeout=timeout_seconds)
        self._path = path

    def connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self.timeout)
            with address(self._path) as name:
                connection.connect(name)
        except BaseException:
            connection.close()
            raise
        self.sock = connection
