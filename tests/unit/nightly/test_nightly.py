"""The night: every part runs, a table tells of all, and one that failed fails the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from harness.clock import Seconds
from harness.documents import ROOT
from nightly.__main__ import PARTS, Outcome, duration, main, table


class Night:
    """Stands in for make: each target takes a minute and ends with the code that was chosen for it."""

    def __init__(self, **codes: int) -> None:
        self.codes = {PARTS[part]: code for part, code in codes.items()}
        self.ran: list[list[str]] = []
        self.clock = Seconds()

    def __call__(self, command: Sequence[str]) -> tuple[int, str]:
        self.ran.append(list(command))
        self.clock.now += 60
        code = self.codes.get(command[-1], 0)
        return code, f"{'1 failed' if code else '9 passed'} in 60s"

    def main(self, *arguments: str) -> int:
        return main(arguments, runner=self, monotonic=self.clock)


def test_every_part_runs_though_the_first_failed(capsys: pytest.CaptureFixture[str]) -> None:
    night = Night(crash=2, benches=-9)
    assert night.main() == 1
    assert [command[-1] for command in night.ran] == list(PARTS.values())
    lines = capsys.readouterr().out.splitlines()
    assert lines[-16:] == [
        "PART       OUTCOME            DURATION    LAST LINE",
        "crash      FAILED (exit 2)    1 min 00 s  1 failed in 60s",
        "breaks     passed             1 min 00 s  9 passed in 60s",
        "memory     passed             1 min 00 s  9 passed in 60s",
        "newest     passed             1 min 00 s  9 passed in 60s",
        "oldest     passed             1 min 00 s  9 passed in 60s",
        "explore    passed             1 min 00 s  9 passed in 60s",
        "benches    FAILED (signal 9)  1 min 00 s  1 failed in 60s",
        "pressure   passed             1 min 00 s  9 passed in 60s",
        "image      passed             1 min 00 s  9 passed in 60s",
        "release    passed             1 min 00 s  9 passed in 60s",
        "chart      passed             1 min 00 s  9 passed in 60s",
        "plugin     passed             1 min 00 s  9 passed in 60s",
        "manifests  passed             1 min 00 s  9 passed in 60s",
        "sbom       passed             1 min 00 s  9 passed in 60s",
        "docs       passed             1 min 00 s  9 passed in 60s",
    ]


def test_a_night_without_failures_passes() -> None:
    assert Night().main() == 0


def test_parts_can_be_chosen_and_make_is_the_one_that_called() -> None:
    night = Night()
    assert night.main("--make", "gmake", "explore", "crash") == 0
    assert night.ran == [
        ["gmake", "--no-print-directory", "explore"],
        ["gmake", "--no-print-directory", "test-crash"],
    ]


def test_a_part_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    night = Night()
    assert night.main("crsh") == 2
    assert night.ran == []
    assert "no part is called crsh; there are crash, breaks" in capsys.readouterr().err


def test_an_interrupted_night_tells_of_what_has_run(capsys: pytest.CaptureFixture[str]) -> None:
    def runner(command: Sequence[str]) -> tuple[int, str]:
        if command[-1] == PARTS["breaks"]:
            raise KeyboardInterrupt
        return 0, "1 passed"

    assert main([], runner=runner) == 130
    assert "crash  passed" in capsys.readouterr().out


def test_the_last_line_is_what_the_part_said_and_not_what_make_said(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A real make, which knows none of the targets."""
    assert main(["--make", "make -f /dev/null", "crash"]) == 1
    assert re.search(r"^crash  FAILED \(exit 2\)  \d+ s\s*$", capfd.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (723, "12 min 03 s"), (9000, "2 h 30 min")],
)  # fmt: skip
def test_durations_as_people_read_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_table_of_nothing_has_a_head() -> None:
    assert table([]) == ["PART  OUTCOME  DURATION  LAST LINE"]
    assert Outcome("x", 0, 1, "").verdict == "passed"


def test_the_page_for_contributors_has_a_row_for_each_part() -> None:
    rows = re.findall(
        r"^\| `([a-z]+)` \| `make ([a-z-]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted(PARTS.items())


def test_the_parts_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(PARTS.values()) <= targets
