"""What a release publishes of the plugin, made once, and each Python of this machine that it is for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from release.plugin import MINORS, write

REPOSITORY: Final = "https://repository.invalid/winpool"


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel, the archives and the manifest."""
    folder = tmp_path_factory.mktemp("released")
    write(folder, repository=REPOSITORY, report=print)
    return folder


@pytest.fixture(params=MINORS, ids=lambda minor: f"3.{minor}")
def python(request: pytest.FixtureRequest) -> Path:
    """One Python after the other; one that this machine has not is named in the reason of the skip."""
    minor: int = request.param
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python3.{minor}"), *sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python3"))]
    program = "import os, sys; print(sys.version_info[1], os.path.realpath(sys.executable))"
    for each in found:
        if each is None:
            continue
        done = subprocess.run([each, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        if done.stdout.split()[:1] == [str(minor)]:
            return Path(done.stdout.split()[1])
    pytest.skip(f"not run: Python 3.{minor} is neither on the PATH nor in {pyenv}")
