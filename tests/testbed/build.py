"""Builds the control plane from its Go module, once per content of the module.

The binary lies in the cache under a hash of everything that decides what it is: go.mod, go.sum, main.go
and the linker flags; so those of several versions lie side by side. It is 134 MB and takes about five
minutes on two cores the first time.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.paths import cache_directory
from testbed.pins import Pins, chosen_pins
from testbed.progress import Report, progress, say
from testbed.toolchain import environment_for, find_go

MODULE: Final = "winpool.dev/testbed/controlplane"
BINARY: Final = "controlplane"
TAIL_LINES: Final = 25
"""Lines of a failed build that are shown: a compiler stops after ten errors, each of two lines or so."""
NO_SPACE: Final = "no space left on device"
_REQUIRED: Final = re.compile(r"^\t\S+ v\S+(?: // indirect)?$", re.MULTILINE)
_DOWNLOADING: Final = "go: downloading "


def linker_flags(version: str) -> str:
    """Return the flags that make the binary small and let ``/version`` say what was built."""
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {p}.{k}={v}" for p in packages for k, v in stamps.items())])


def key(pins: Pins) -> str:
    """Name of a build: a hash of all that decides what comes out of it."""
    digest = hashlib.sha256()
    for name, path in pins.sources.items():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    digest.update(linker_flags(pins.kubernetes).encode())
    digest.update(platform.machine().encode())
    return digest.hexdigest()[:20]


def binary_path(*, cache: Path | None = None, pins: Pins | None = None) -> Path:
    """Where the binary lies or will lie."""
    return (cache or cache_directory()) / "controlplane" / key(pins or chosen_pins()) / BINARY


def ensure_binary(*, cache: Path | None = None, pins: Pins | None = None, report: Report = say) -> Path:
    """Return the control plane binary; build it where it is not there yet.

    Several builders of one cache wait for each other, and the second finds what the first has made.

    Args:
        cache: where binaries are kept; the shared cache by default.
        pins: what to build; the version that the environment asks for by default.
        report: told what happens, one line at a time.

    Raises:
        TestbedError: no pins, no Go, no network, no space or a compile error; the text says which.

    """
    cache, pins = cache or cache_directory(), pins or chosen_pins()
    binary = binary_path(cache=cache, pins=pins)
    if binary.exists():
        return binary
    binary.parent.mkdir(parents=True, exist_ok=True)
    with _lock(binary.parent / "lock", report=report):
        if not binary.exists():
            _build(binary, cache=cache, pins=pins, report=report)
    return binary


def _build(binary: Path, *, cache: Path, pins: Pins, report: Report) -> None:
    version = pins.kubernetes
    go = find_go(cache=cache, report=report)
    environment = environment_for(go)
    report(f"building the Kubernetes {version} control plane into {binary.parent}; once, about five minutes")
    packages = _download(go, pins=pins, environment=environment, report=report)
    temporary = binary.with_suffix(".building")
    arguments = [
        pins.modfile,
        "-v",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        linker_flags(version),
        "-o",
        str(temporary),
    ]
    try:
        with progress("compiling", total=packages, report=report) as advance:
            compiled = 0

            def count(line: str) -> None:
                nonlocal compiled
                # Packages that are cached are not named; our own comes last, and after it only the linker.
                compiled = packages if line == MODULE else compiled + 1
                advance(compiled, "linking" if line == MODULE else line)

            _go([str(go), "build", *arguments, "."], cwd=pins.module, environment=environment, each=count)
        temporary.replace(binary)
    finally:
        temporary.unlink(missing_ok=True)
    report(f"built {binary}")


def _download(go: Path, *, pins: Pins, environment: Mapping[str, str], report: Report) -> int:
    """Download the modules and return the number of packages that a cold build compiles."""
    required = len(_REQUIRED.findall(pins.go_mod.read_text()))
    packages = downloaded = 0
    with progress("downloading modules", total=required, report=report) as advance:

        def count(line: str) -> None:
            nonlocal packages, downloaded
            if line.startswith(_DOWNLOADING):
                downloaded += 1
                advance(downloaded, line.removeprefix(_DOWNLOADING))
            else:
                packages += 1

        command = [str(go), "list", pins.modfile, "-deps", "."]
        _go(command, cwd=pins.module, environment=environment, each=count)
    return packages


def _go(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], each: Callable[[str], None]
) -> None:
    """Run ``go`` in a process group of its own, so that nothing of it is left when we are interrupted."""
    last: deque[str] = deque(maxlen=TAIL_LINES)
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if is_message(line):
                    last.append(line.rstrip())
                each(line.rstrip())
            returncode = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if returncode != 0:
        raise TestbedError(explain(command[1], list(last), environment=environment))


def is_message(line: str) -> bool:
    """Tell what ``go`` has to say from the names of packages that it lists, which hide it in a log."""
    return not line.startswith(_DOWNLOADING) and any(character in line for character in " :\t")


def explain(step: str, output: Sequence[str], *, environment: Mapping[str, str]) -> str:
    """Say in one sentence why a step of the build failed, and show the end of what it printed."""
    shown = "\n".join(f"  {line}" for line in output)
    if any(NO_SPACE in line for line in output):
        return f"no disk space left to build the control plane.\n{_space(environment)}\n{shown}"
    if step == "list":
        return (
            f"cannot download the Go modules of the control plane:\n{shown}\n"
            "Check the network and GOPROXY, and try again: what is there already is kept."
        )
    return f"the control plane does not compile:\n{shown}"


def _space(environment: Mapping[str, str]) -> str:
    places = {
        "cache": str(cache_directory()),
        "GOCACHE": environment.get("GOCACHE", ""),
        "GOMODCACHE": environment.get("GOMODCACHE", ""),
        "TMPDIR": tempfile.gettempdir(),
    }
    lines = (
        f"  {name}: {place}: {shutil.disk_usage(place).free / 2**30:.1f} GiB free"
        for name, place in places.items()
        if place and Path(place).is_dir()
    )
    return "A first build needs about 5 GiB in the Go caches:\n" + "\n".join(lines)


@contextlib.contextmanager
def _lock(path: Path, *, report: Report) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process builds the control plane; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
