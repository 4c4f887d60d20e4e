"""Runs the image with crun as a kubelet would run a restricted pod: read-only, unprivileged, without a shell.

The network is that of the machine, where the testbed listens.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from image.building import Image

SHELLS: Final = ("/bin/bash", "/bin/dash", "/bin/sh")
RUN_SECONDS: Final = 120.0
"""Guard for a command that ends by itself."""

_WITHOUT_CGROUPS: Final = (
    "unshare",
    "--mount",
    "--propagation=private",
    "sh",
    "-c",
    # crun refuses a machine that has both versions of cgroups; limits are not what is tested here.
    'mount -t tmpfs none /sys/fs/cgroup && exec "$0" "$@"',
)


class Container:
    """One container: not started yet, running, or ended. It has the methods of ``subprocess.Popen`` it needs.

    ``arguments`` replace entry point and command of the image. ``mounts`` are folders or files of the machine
    by their place in the container, where they are read-only; in those of ``writable`` it may write.
    ``hostname`` is what it takes for the name of its machine, if not that of the real one.
    """

    def __init__(
        self,
        image: Image,
        *,
        directory: Path,
        arguments: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        mounts: Mapping[str, Path] | None = None,
        writable: Mapping[str, Path] | None = None,
        hostname: str = "",
    ) -> None:
        self.name = f"winpool-{secrets.token_hex(4)}"
        self._bundle = directory / self.name
        self._state = directory / "crun"
        self._bundle.mkdir(parents=True)
        config = image.config
        chosen = [*config["Entrypoint"], *config["Cmd"]] if arguments is None else list(arguments)
        document = _document(image, chosen, environment=dict(environment or {}))
        document["mounts"] += [_bind(place, source, "ro") for place, source in (mounts or {}).items()]
        document["mounts"] += [_bind(place, source, "rw") for place, source in (writable or {}).items()]
        if hostname:
            document["hostname"] = hostname
        (self._bundle / "config.json").write_text(json.dumps(document))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, output: IO[bytes]) -> None:
        """Start it; what it prints goes to ``output``."""
        self._process = subprocess.Popen(
            self._crun("run", "--bundle", str(self._bundle), self.name),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        """Start it, and return when it has ended."""
        return subprocess.run(
            self._crun("run", "--bundle", str(self._bundle), self.name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )

    @property
    def pid(self) -> int:
        """The process of crun, which waits for the container and ends with its exit code."""
        return self._running.pid

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._running.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when it has ended."""
        return self._running.wait(timeout)

    def send_signal(self, number: int) -> None:
        """Send a signal to the first process in the container, as a kubelet does."""
        self._ask("kill", self.name, signal.Signals(number).name)

    def kill(self) -> None:
        """End it if it still runs, and remove what crun knows of it."""
        subprocess.run(self._crun("delete", "--force", self.name), capture_output=True, check=False)
        if self._process is not None:
            self._process.kill()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def _ask(self, *words: str) -> None:
        done = subprocess.run(self._crun(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"crun {' '.join(words)}: {done.stderr}"

    def _crun(self, *words: str) -> list[str]:
        crun = ["crun", "--root", str(self._state), "--cgroup-manager=disabled"]
        return [*_WITHOUT_CGROUPS, *crun, *words]


def _bind(place: str, source: Path, mode: str) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": str(source), "options": ["rbind", mode]}


def _document(image: Image, arguments: list[str], *, environment: dict[str, str]) -> dict[str, Any]:
    """Return the config.json of the OCI runtime specification."""
    user, _, group = image.config["User"].partition(":")
    none: dict[str, list[str]] = {
        kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
    }
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(image.rootfs), "readonly": True},
        "process": {
            "user": {"uid": int(user), "gid": int(group)},
            "args": arguments,
            "env": [*image.config["Env"], *(f"{name}={value}" for name, value in environment.items())],
            "cwd": image.config["WorkingDir"],
            "capabilities": none,
            "noNewPrivileges": True,
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "strictatime", "mode=755", "size=64k"],
            },
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")],
            "maskedPaths": [shell for shell in SHELLS if (image.rootfs / shell[1:]).exists()],
        },
    }
