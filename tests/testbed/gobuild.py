"""Builds a Go program from a module whose versions are pinned, once per content of the module.

The binary lies in the cache under a hash of everything that decides what it is, so those of several
versions lie side by side.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.paths import cache_directory
from testbed.progress import Report, progress, say
from testbed.toolchain import environment_for, find_go

TAIL_LINES: Final = 25
"""Lines of a failed build that are shown: a compiler stops after ten errors, each of two lines or so."""
NO_SPACE: Final = "no space left on device"
_REQUIRED: Final = re.compile(r"^\t\S+ v\S+(?: // indirect)?$", re.MULTILINE)
_DOWNLOADING: Final = "go: downloading "


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to build, and all that decides what it is."""

    name: str
    """Of the binary, and of its folder in the cache."""
    title: str
    """What people call it, with its article: ``the control plane``."""
    full_title: str
    """The same with what tells it from others, such as its version."""
    minutes: str
    """How long a first build takes on two cores, in a word."""
    space_gib: int
    """What a first build takes in the Go caches."""
    module: Path
    """The folder where ``go`` runs."""
    sources: Mapping[str, Path]
    """The files that decide what is built, by their names in a module; go.mod is one of them."""
    package: str
    """What ``go build`` is asked for."""
    main: str
    """The import path of that package."""
    linker_flags: str
    options: tuple[str, ...] = ()
    """Further options that decide which files and versions are built."""
    tags: str = ""
    """Build tags, as ``-tags`` takes them."""

    @property
    def selection(self) -> tuple[str, ...]:
        """The options that ``go list`` and ``go build`` have in common."""
        return (*self.options, *((f"-tags={self.tags}",) if self.tags else ()))

    @property
    def key(self) -> str:
        """Name of the build: a hash of all that decides what comes out of it."""
        digest = hashlib.sha256()
        for name, path in self.sources.items():
            content = path.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
        for part in (self.linker_flags, platform.machine(), self.tags):
            digest.update(part.encode())
        return digest.hexdigest()[:20]

    def binary(self, *, cache: Path) -> Path:
        """Where the binary lies or will lie."""
        return cache / self.name / self.key / self.name


def required_version(module: str, *, go_mod: Path) -> str:
    """Return the version of a module that the go.mod requires, such as ``v3.22.0``.

    Raises:
        TestbedError: it requires no such module.

    """
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise TestbedError(f"{go_mod} does not require {module}")
    return found[1]


def tool(
    name: str,
    *,
    go_mod: Path,
    module: str,
    package: str,
    minutes: str,
    space_gib: int,
    linker_flags: str = "-s -w",
) -> Program:
    """Return a program that a go.mod names as its tool, in the version of ``module`` that it requires."""
    return Program(
        name=name,
        title=name,
        full_title=f"{name} {required_version(module, go_mod=go_mod)}",
        minutes=minutes,
        space_gib=space_gib,
        module=go_mod.parent,
        sources={path.name: path for path in (go_mod, go_mod.with_suffix(".sum"))},
        package=package,
        main=package,
        linker_flags=linker_flags,
    )


def ensure_program(program: Program, *, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary; build it where it is not there yet.

    Several builders of one cache wait for each other, and the second finds what the first has made.

    Args:
        program: what to build.
        cache: where binaries are kept; the shared cache by default.
        report: told what happens, one line at a time.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    cache = cache or cache_directory()
    binary = program.binary(cache=cache)
    if binary.exists():
        return binary
    binary.parent.mkdir(parents=True, exist_ok=True)
    with _lock(binary.parent / "lock", program=program, report=report):
        if not binary.exists():
            _build(binary, program, cache=cache, report=report)
    return binary


def print_path(ensure: Callable[[], Path], *, name: str) -> int:
    """Print where the binary of ``name`` is; return the exit code of a command that does this."""
    try:
        print(ensure())
    except TestbedError as error:
        say(f"{name}: {error}")
        return 1
    return 0


def _build(binary: Path, program: Program, *, cache: Path, report: Report) -> None:
    go = find_go(cache=cache, report=report)
    environment = environment_for(go)
    takes = f"once, about {program.minutes} minutes"
    report(f"building {program.full_title} into {binary.parent}; {takes}")
    packages = _download(go, program, environment=environment, report=report)
    temporary = binary.with_suffix(".building")
    arguments = [
        *program.selection,
        "-v",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        program.linker_flags,
        "-o",
        str(temporary),
        program.package,
    ]
    try:
        with progress("compiling", total=packages, report=report) as advance:
            compiled = 0

            def count(line: str) -> None:
                nonlocal compiled
                # Packages that are cached are not named; our own comes last, and after it only the linker.
                compiled = packages if line == program.main else compiled + 1
                advance(compiled, "linking" if line == program.main else line)

            _go([str(go), "build", *arguments], program, environment=environment, each=count)
        temporary.replace(binary)
    finally:
        temporary.unlink(missing_ok=True)
    report(f"built {binary}")


def _download(go: Path, program: Program, *, environment: Mapping[str, str], report: Report) -> int:
    """Download the modules and return the number of packages that a cold build compiles."""
    required = len(_REQUIRED.findall(program.sources["go.mod"].read_text()))
    packages = downloaded = 0
    with progress("downloading modules", total=required, report=report) as advance:

        def count(line: str) -> None:
            nonlocal packages, downloaded
            if line.startswith(_DOWNLOADING):
                downloaded += 1
                advance(downloaded, line.removeprefix(_DOWNLOADING))
            else:
                packages += 1

        command = [str(go), "list", *program.selection, "-deps", program.package]
        _go(command, program, environment=environment, each=count)
    return packages


def _go(
    command: Sequence[str],
    program: Program,
    *,
    environment: Mapping[str, str],
    each: Callable[[str], None],
) -> None:
    """Run ``go`` in a process group of its own, so that nothing of it is left when we are interrupted."""
    last: deque[str] = deque(maxlen=TAIL_LINES)
    with subprocess.Popen(
        command,
        cwd=program.module,
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
        raise TestbedError(explain(program, command[1], list(last), environment=environment))


def is_message(line: str) -> bool:
    """Tell what ``go`` has to say from the names of packages that it lists, which hide it in a log."""
    return not line.startswith(_DOWNLOADING) and any(character in line for character in " :\t")


def explain(program: Program, step: str, output: Sequence[str], *, environment: Mapping[str, str]) -> str:
    """Say in one sentence why a step of the build failed, and show the end of what it printed."""
    shown = "\n".join(f"  {line}" for line in output)
    if any(NO_SPACE in line for line in output):
        space = _space(program, environment)
        return f"no disk space left to build {program.title}.\n{space}\n{shown}"
    if step == "list":
        return (
            f"cannot download the Go modules of {program.title}:\n{shown}\n"
            "Check the network and GOPROXY, and try again: what is there already is kept."
        )
    return f"{program.title} does not compile:\n{shown}"


def _space(program: Program, environment: Mapping[str, str]) -> str:
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
    return f"A first build needs about {program.space_gib} GiB in the Go caches:\n" + "\n".join(lines)


@contextlib.contextmanager
def _lock(path: Path, *, program: Program, report: Report) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another process builds {program.title}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
