"""Starts the plugin from the packages beside this file: ``start.py NAME ARGUMENT …``.

``kubectl-winpool`` finds the Python for it. NAME is that of the program: the plugin itself, or the one that
completes its command lines.

The first start with a Python unpacks those for it into the cache of the user, in a folder named by the digest
of all packages. Each later one only adds that folder to the path. Nothing is ever downloaded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

WHEELS: Final = Path(__file__).resolve().parent / "wheels"
OLD_SECONDS: Final = 600
"""A folder of a start that was killed is removed after this time. To unpack takes some seconds."""
STICKY: Final = 0o1000
OTHERS_WRITE: Final = 0o002
FAILED: Final = 1
INTERRUPTED: Final = 130
"""What a shell reports for a command that Ctrl-C ended."""


class LauncherError(Exception):
    """The plugin cannot start; the text says why, and what to do."""


def main() -> int:
    """Run the program with the arguments of the process; return its exit code, or 1 where it cannot start."""
    name = sys.argv.pop(1)
    try:
        folder = prepared()
    except LauncherError as error:
        sys.stderr.write(f"kubectl winpool cannot start: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    sys.path.insert(0, str(folder))
    if name.startswith("kubectl_complete"):
        from winpool.cli.completion import main as complete

        return complete()
    from winpool.cli.__main__ import main as plugin

    return plugin()


def prepared() -> Path:
    """Return a folder with the packages for this Python.

    Raises LauncherError where there is none, and none can be made.
    """
    digest = (WHEELS / "digest").read_text().strip()
    try:
        ready = cache() / f"{digest[:16]}-{sys.implementation.cache_tag}"
        return ready if is_ours(ready) and foreign(ready.parent) is None else keep(ready, digest)
    except OSError as error:
        return unpack_for_now(digest, error)


def variable() -> str:
    """Return the name of the environment variable that says where caches are."""
    return "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"


def cache() -> Path:
    """Return the folder for all that is unpacked. Raises OSError where the user has no home."""
    base = os.environ.get(variable(), "")
    if not base:
        try:
            base = str(Path.home() / ("AppData/Local" if os.name == "nt" else ".cache"))
        except RuntimeError as error:
            raise FileNotFoundError(str(error)) from None
    return Path(base, "winpool", "plugin")


def is_ours(folder: Path) -> bool:
    """Tell whether a folder is there, and no other user has made it, has led to it, or can write to it.

    A group may: many systems give each user a group of their own.
    """
    try:
        named, found = folder.lstat(), folder.stat()
    except OSError:
        return False
    if os.name == "nt":
        return True
    return named.st_uid == found.st_uid == os.getuid() and not found.st_mode & OTHERS_WRITE


def foreign(folder: Path) -> Path | None:
    """Return where another user could put something else in the place of what is kept in ``folder``.

    None where that is nowhere. In a folder such as ``/tmp`` (sticky) only the owner renames a file.
    """
    base = folder.parents[1]
    if os.name != "nt" and base.stat().st_mode & (STICKY | OTHERS_WRITE) == OTHERS_WRITE:
        return base
    return next((each for each in (folder.parent, folder) if not is_ours(each)), None)


def keep(ready: Path, digest: str) -> Path:
    """Unpack into ``ready``, which is there completely or not at all, and return it.

    Of several starts at once each unpacks, and the first that has done so wins.
    Raises LauncherError, and OSError where ``ready`` cannot be made.
    """
    import shutil
    import tempfile
    import time
    from contextlib import suppress

    for each in (ready.parents[2], ready.parents[1], ready.parent):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (place := foreign(ready.parent)) is not None:
        raise PermissionError(f"{place} is of another user, or every user can write to it")
    for left in ready.parent.glob(f"{ready.name}.*"):
        with suppress(FileNotFoundError):  # another start has removed or renamed it
            if time.time() - left.stat().st_mtime > OLD_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{ready.name}.", dir=ready.parent))
    try:
        unpack(folder, digest, later=ready)
        folder.rename(ready)
    except OSError:
        if not is_ours(ready):
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ready


def unpack_for_now(digest: str, error: OSError) -> Path:
    """Unpack into a temporary folder, which is removed at the end, and return it.

    ``error`` says why there is no cache. Raises LauncherError where there is no such folder either.
    """
    import atexit
    import shutil
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="kubectl-winpool."))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        unpack(folder, digest, later=folder)
    except OSError as second:
        raise LauncherError(
            f"it has no place for its packages ({error}; {second}). Set {variable()} to a folder that you "
            "can write to"
        ) from None
    sys.stderr.write(
        f"kubectl winpool unpacks its packages at each start, which takes seconds: {error}. Set {variable()} "
        "to a folder that you can write to\n"
    )
    return folder


def unpack(folder: Path, digest: str, *, later: Path) -> None:
    """Unpack the packages for this Python into ``folder``, and compile them as files of ``later``.

    Raises LauncherError where the packages are damaged, or not for this system, and OSError where the
    folder cannot be written.
    """
    import compileall
    import io
    import subprocess
    import zipfile
    from py_compile import PycInvalidationMode

    for content in wheels(digest):
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            wheel.extractall(folder)
    # Not compared with the time of its source at each start: what is in a folder named by a digest stays.
    compileall.compile_dir(
        folder,
        quiet=2,
        stripdir=str(folder),
        prependdir=str(later),
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )
    # In a process of its own: here they would stay loaded from a folder that gets another name.
    loading = "import sys; sys.path.insert(0, sys.argv[1]); import msgspec, pydantic, yaml"
    command = [sys.executable, "-I", "-S", "-c", loading, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1]
        raise LauncherError(
            f"its packages do not load with {sys.executable} ({why}). Download the archive for your system "
            "and architecture. Where there is none, use pipx install winpool"
        )


def wheels(digest: str) -> list[bytes]:
    """Return the packages for this Python. Raises LauncherError like ``read``, and where there are none."""
    import json

    version = ".".join(str(part) for part in sys.version_info[:2])
    index: dict[str, dict[str, str]] = json.loads(read("index.json", digest))
    if version not in index:
        raise LauncherError(
            f"it has packages for Python {', '.join(index)}, and {sys.executable} is {version}"
        )
    return [read(name, wanted) for name, wanted in index[version].items()]


def read(name: str, digest: str) -> bytes:
    """Return the content of a file. Raises LauncherError where that is not what was released."""
    import hashlib

    try:
        content = (WHEELS / name).read_bytes()
    except OSError as error:
        raise LauncherError(f"the installation is damaged ({error}). Install it again") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise LauncherError(
            f"the installation is damaged ({WHEELS / name} is not what was released). Install it again"
        )
    return content


if __name__ == "__main__":
    sys.exit(main())
