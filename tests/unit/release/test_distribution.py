"""One distribution: what everyone installs is the plugin, and the extra ``operator`` is the operator."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from harness.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(name: str) -> dict[str, str]:
    lines = re.findall(r"(?m)^([\w.-]+)==(\S+)", (ROOT / "requirements" / f"{name}.txt").read_text())
    return dict(lines)


def test_the_plugin_has_the_versions_that_the_operator_has() -> None:
    assert pins("plugin").items() < pins("run").items()


def test_the_operators_extra_has_nothing_that_is_in_the_base() -> None:
    base, extra = (
        {each.partition("==")[0].lower() for each in group}
        for group in (PROJECT["dependencies"], PROJECT["optional-dependencies"]["operator"])
    )
    assert base <= pins("plugin").keys()
    assert extra <= pins("run").keys()
    assert extra.isdisjoint(pins("plugin"))


WITHOUT_THE_OPERATOR = """\
import pkgutil, runpy, sys
from importlib.metadata import packages_distributions
theirs = set(sys.argv[1].split(","))
for module, distributions in packages_distributions().items():
    if all(each.lower().replace("_", "-") in theirs for each in distributions):
        sys.modules[module] = None
"""


def without_the_operator(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python without what only the operator or the tests have."""
    known = {*pins("dev"), "click"} - pins("plugin").keys()
    command = [sys.executable, "-c", WITHOUT_THE_OPERATOR + program, ",".join(known), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_every_module_of_the_plugin_loads_without_the_packages_of_the_operator() -> None:
    done = without_the_operator(
        "import winpool.cli\n"
        "names = [each.name for each in pkgutil.iter_modules(winpool.cli.__path__)]\n"
        "for name in names:\n"
        "    if name != 'memory_plot':\n"  # it has an extra of its own
        "        __import__(f'winpool.cli.{name}')\n"
        "print(len(names))\n"
    )
    assert done.stderr == ""
    assert int(done.stdout) == len([*(ROOT / "operator" / "winpool" / "cli").glob("[!_]*.py")]) + 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("run",), ("version",), ("--help",)], ids=" ".join)
def test_the_operator_without_its_packages_says_what_to_install(arguments: tuple[str, ...]) -> None:
    done = without_the_operator(
        "sys.argv[1:] = sys.argv[2:]\nrunpy.run_module('winpool', run_name='__main__')\n", *arguments
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "winpool: the operator needs more packages than kubectl winpool: pip install 'winpool[operator]'\n"
    )
