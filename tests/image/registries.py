"""What a release is pushed to and installed from, on this machine: a registry, a package index, a web server.

The registry is that of Debian (distribution), the index is pypiserver. Neither asks who someone is.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from builder import ROOT

ADDRESS: Final = "127.0.0.1"
INDEX: Final = ROOT / ".venv-index" / "bin" / "python"
"""Made by ``make test-release`` from ``requirements/index.txt``."""
START_SECONDS: Final = 60.0
"""Guard: each of them listens within two seconds on an idle machine."""


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run an OCI registry that keeps what it gets in a folder; give its address without a scheme."""
    port = free_port()
    config = folder / "registry.yaml"
    config.write_text(
        json.dumps(
            {
                "version": 0.1,
                "log": {"level": "warn"},
                "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
                "http": {"addr": f"{ADDRESS}:{port}"},
            }
        )
    )
    with served(
        ["docker-registry", "serve", str(config)], port=port, log=folder / "registry.log", path="/v2/"
    ):
        yield f"{ADDRESS}:{port}"


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """Run a package index that keeps what it gets in a folder; give its URL, which ends with a slash."""
    port = free_port()
    packages = folder / "packages"
    packages.mkdir()
    command = [str(INDEX), "-m", "pypiserver", "run", "-i", ADDRESS, "-p", str(port)]
    open_to_all = ["-P", ".", "-a", "."]
    with served([*command, *open_to_all, str(packages)], port=port, log=folder / "index.log"):
        yield f"http://{ADDRESS}:{port}/"


@contextmanager
def files(folder: Path, log: Path) -> Iterator[str]:
    """Serve the files in a folder; give the URL, without a slash at its end."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", ADDRESS, "--directory", str(folder), str(port)]
    with served(command, port=port, log=log):
        yield f"http://{ADDRESS}:{port}"


@contextmanager
def served(command: Sequence[str], *, port: int, log: Path, path: str = "/") -> Iterator[None]:
    """Run a server until the block is left; enter it when the server answers."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        end = time.monotonic() + START_SECONDS
        while not answers(f"{ADDRESS}:{port}{path}"):
            said = log.read_text()[-2000:]
            assert process.poll() is None, f"{' '.join(command)} has ended: {said}"
            assert time.monotonic() < end, f"{' '.join(command)} does not answer: {said}"
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    """Return whether a server answers with success."""
    try:
        with urllib.request.urlopen(f"http://{address}", timeout=5):
            return True
    except OSError:
        return False


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    with socket.socket() as found:
        found.bind((ADDRESS, 0))
        port: int = found.getsockname()[1]
    return port
