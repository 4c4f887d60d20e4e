"""``pip install winpool`` into an empty environment: the plugin, and nothing that only the operator needs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from plugin import offline
from release.plugin import PINS
from winpool import __version__


@pytest.fixture
def environment(python: Path, released: Path, tmp_path: Path) -> Path:
    """An environment with the wheel and its dependencies, which pip takes by the hashes of our pins."""
    venv = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", venv], timeout=120, check=True)
    [wheel] = released.glob("winpool-*.whl")
    pip(venv, "install", "--only-binary=:all:", "--require-hashes", "-r", str(PINS))
    # From no index: what the wheel asks for has to be there already.
    pip(venv, "install", "--no-index", str(wheel))
    return venv


def pip(venv: Path, *arguments: str) -> str:
    command = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_verb_works_with_the_base_dependencies_alone(environment: Path, tmp_path: Path) -> None:
    installed = {
        each["name"].lower(): each["version"]
        for each in json.loads(pip(environment, "list", "--format=json"))
    }
    pinned = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", PINS.read_text()))
    normal = {re.sub(r"[-_.]+", "-", name): version for name, version in installed.items()}
    assert {**pinned, "winpool": __version__} == {
        name: version for name, version in normal.items() if name not in ("pip", "setuptools")
    }
    pip(environment, "check")
    offline.check(
        [str(environment / "bin" / "kubectl-winpool")],
        environment={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    done = subprocess.run(
        [environment / "bin" / "python", "-m", "winpool", "run"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "winpool: the operator needs more packages than kubectl winpool: pip install 'winpool[operator]'\n"
    )
