"""The simulated nodes as tests and people see them: ask them, and tell them what to do."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING, Final

from testbed.control import address
from testbed.errors import TestbedError
from testbed.winsim.replies import Summary

if TYPE_CHECKING:
    from pathlib import Path

ASK_TIMEOUT_SECONDS: Final = 10.0
"""An answer from memory comes in milliseconds; the rest is for a machine under full load."""


class FleetControl:
    """One process of simulated nodes, by its control socket. Methods block; the object holds nothing open."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def summary(self) -> Summary:
        """Return the fleet in numbers.

        Raises:
            TestbedError: nobody answers at the socket.

        """
        return Summary.model_validate_json(self._exchange("GET", "/v1/summary"))

    def _exchange(self, method: str, path: str) -> bytes:
        connection = _UnixConnection(self.path, timeout_seconds=ASK_TIMEOUT_SECONDS)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            raise TestbedError(
                f"no simulated nodes answer at {self.path} ({error}); they are there once a testbed with "
                "--windows or --linux over 0 has started"
            ) from error
        finally:
            connection.close()


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
