"""The alerts as Prometheus evaluates them: when they fire, when not, and what they say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from alerts.render import FOLDER, RUNBOOKS
from testbed.promtool import ensure_promtool

CASES = sorted((Path(__file__).parent / "cases").glob("*.test.yaml"))
RULES = FOLDER / "winpool.rules.yaml"
GUARD_SECONDS = 600.0
"""Against waiting for ever: a file of cases takes seconds on an idle machine, and a busy one starves it."""


@pytest.fixture(scope="session")
def promtool() -> Path:
    return ensure_promtool()


def _cases(path: Path) -> str:
    """Return a file of cases for another folder, with the addresses of the runbooks in them."""
    text = path.read_text()
    assert "rule_files: [../../../deploy/alerts/winpool.rules.yaml]" in text
    text = text.replace("rule_files: [../../../deploy/alerts/winpool.rules.yaml]", f"rule_files: [{RULES}]")
    return text.replace("runbook_url: RUNBOOKS/", f"runbook_url: {RUNBOOKS}/")


def _run(promtool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(promtool), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=GUARD_SECONDS,
        check=False,
    )


def test_the_rule_file_is_valid_and_has_nothing_to_complain_of(promtool: Path) -> None:
    done = _run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.name.partition(".")[0])
def test_alerts_fire_when_they_should_and_say_what_they_should(
    promtool: Path, cases: Path, tmp_path: Path
) -> None:
    (tmp_path / cases.name).write_text(_cases(cases))
    done = _run(promtool, "test", "rules", str(tmp_path / cases.name))
    assert done.returncode == 0, done.stdout


def test_a_case_that_expects_something_else_is_noticed(promtool: Path, tmp_path: Path) -> None:
    """Or all of the above would prove nothing."""
    right = _cases(next(path for path in CASES if path.name.startswith("operator")))
    (tmp_path / "right.yaml").write_text(right)
    (tmp_path / "wrong.yaml").write_text(right.replace("11% of the passes", "12% of the passes"))
    assert _run(promtool, "test", "rules", str(tmp_path / "right.yaml")).returncode == 0
    assert "12% of the passes" in _run(promtool, "test", "rules", str(tmp_path / "wrong.yaml")).stdout
