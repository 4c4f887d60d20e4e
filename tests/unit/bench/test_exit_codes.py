"""A count that is not as wanted fails a bench; a time that is not, is told."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from bench import __main__ as command
from bench.errors import BenchError
from bench.targets import Target, at_most, exactly, missed, of_the_machine, told
from harness.documents import ROOT

SLOW = of_the_machine(at_most("seconds", 3.0, 2))
TOO_MANY = at_most("writes", 3, 2)
FINE = exactly("repairs", 2, 2)
UNKNOWN = exactly("gets", None, 0)


@pytest.fixture(autouse=True)
def handlers_stay() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(monkeypatch: pytest.MonkeyPatch, *targets: Target) -> int:
    def run(**_: Any) -> dict[str, Any]:
        return {"nodes": 1, **told(targets)}

    monkeypatch.setattr(command, "run_storm", run)
    return command.main(["storm", "--nodes", "1"])


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        ([FINE, UNKNOWN], 0),
        ([FINE, SLOW], 0),
        ([FINE, TOO_MANY], 3),
        ([SLOW, TOO_MANY], 3),
    ],
    ids=["as wanted", "slow", "too many", "both"],
)
def test_the_exit_code_is_of_the_counts(
    targets: list[Target], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, *targets) == code
    printed = capsys.readouterr()
    figures = json.loads(printed.out.splitlines()[-1])
    assert figures["missed"] == missed(targets)
    assert figures["missed_counts"] == (["writes"] if code else [])
    assert printed.err == ("missed: writes\n" if code else "")


def test_a_broken_run_is_another_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**_: Any) -> dict[str, Any]:
        raise BenchError("the operator ended")

    monkeypatch.setattr(command, "run_storm", run)
    assert command.main(["storm"]) == 1


def test_what_fails_the_run_is_in_capitals() -> None:
    assert [each.verdict for each in (SLOW, TOO_MANY, FINE, UNKNOWN)] == [
        "missed",
        "MISSED",
        "met",
        "not measured",
    ]


def test_the_page_names_every_figure_that_fails_nothing() -> None:
    source = "".join(path.read_text() for path in (ROOT / "tests" / "bench").glob("*.py"))
    names = set(re.findall(r'of_the_machine\(\s*at_\w+\(\s*"(\w+)"', source))
    assert len(names) == 15
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert not [name for name in names if f"`{name}`" not in page.partition("| Variable |")[0]]
