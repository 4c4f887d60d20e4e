"""The plugin as it is installed from an archive, of a release or with packages of a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.plugin import Target, files_of

THIS: Final = sys.version_info.minor

PLUGIN: Final = """\
import sys
from pathlib import Path

def main():
    print(Path(main.__code__.co_filename).parents[2], *sys.argv[1:])
    return 7
"""

PACKAGES: Final = {
    "winpool/__init__.py": "",
    "winpool/cli/__init__.py": "",
    "winpool/cli/__main__.py": PLUGIN,
    "winpool/cli/completion.py": "def main():\n    print('completed')\n",
    "msgspec.py": "",
    "pydantic.py": "import os, time; time.sleep(float(os.environ.get('LOADING_SECONDS', '0')))",
    "yaml.py": "",
}
"""The plugin says where its code is from and what it was given, and ends with 7."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a start ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Installation:
    """An archive that was unpacked, and a user with a home and a Python on the PATH."""

    folder: Path
    home: Path
    path: Path

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "winpool" / "plugin"

    @property
    def kept(self) -> list[Path]:
        """What is in the cache."""
        return sorted(self.cache.iterdir()) if self.cache.exists() else []

    def begin(self, *arguments: str, command: Path | None = None, **variables: str) -> subprocess.Popen[str]:
        """Start it in a process group of its own."""
        return subprocess.Popen(
            [command or self.folder / "kubectl-winpool", *arguments],
            env={"HOME": str(self.home), "PATH": f"{self.path}:/usr/bin:/bin", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: str, command: Path | None = None, **variables: str) -> Ended:
        """Start it, and wait for its end."""
        with self.begin(*arguments, command=command, **variables) as process:
            out, err = process.communicate(timeout=60)
        return Ended(process.returncode, out, err)


def wheel(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """Write a wheel with these files."""
    path = folder / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for file, text in files.items():
            packed.writestr(file, text)
    return path


def install(
    to: Path, *, packages: Mapping[str, str] = PACKAGES, minors: Sequence[int] = (THIS,)
) -> Installation:
    """Make an archive for these versions of Python, and unpack it as krew does."""
    made, folder, path = to / "made", to / "store" / "v1", to / "bin"
    for each in (made, path, to / "home"):
        each.mkdir()
    files = files_of(
        Target(os="linux", arch="amd64", tags=()),
        {minor: [wheel(made, "winpool", packages)] for minor in minors},
        made / "licenses",
    )
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for name in ("kubectl-winpool", "kubectl_complete-winpool"):
        (folder / name).chmod(0o755)
    (path / "python3").symlink_to(os.path.realpath(sys.executable))
    return Installation(folder, to / "home", path)
