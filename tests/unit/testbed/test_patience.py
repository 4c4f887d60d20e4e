"""Nobody waits for long without a line."""

import re
import subprocess
import sys
import time

from testbed import patience
from testbed.patience import patiently
from testbed.waiting import wait_until


def test_the_last_line_is_repeated_with_its_seconds_while_nothing_is_said() -> None:
    lines: list[str] = []
    with patiently(lines.append, silence_seconds=0.1) as voice:
        voice.say("starting")
        wait_until(lambda: len(lines) >= 3, what="it to be repeated", timeout_seconds=10)
        voice.say("ready")
        before = len(lines)
        voice.note("Collecting ruff")
        wait_until(lambda: len(lines) > before, what="it to be repeated", timeout_seconds=10)
    assert [re.sub(r"\(\d+ s\)", "(N s)", each) for each in lines[:3]] == [
        "starting",
        *["starting (N s)"] * 2,
    ]
    assert re.fullmatch(r"ready \(\d+ s\): Collecting ruff", lines[before])


def test_nothing_is_said_before_the_first_line_nor_after_the_end() -> None:
    lines: list[str] = []
    with patiently(lines.append, silence_seconds=0.05) as voice:
        time.sleep(0.2)
        assert not lines
        voice.say("starting")
    time.sleep(0.2)
    assert lines == ["starting"]


def test_who_speaks_often_is_not_interrupted() -> None:
    lines: list[str] = []
    with patiently(lines.append, silence_seconds=5) as voice:
        for step in range(20):
            voice.say(f"step {step}")
            time.sleep(0.02)
    assert lines == [f"step {step}" for step in range(20)]


def as_a_script(command: str) -> subprocess.CompletedProcess[str]:
    """Run it as ``make install`` does, without any package of ours."""
    argv = [sys.executable, "-I", "-S", patience.__file__, "Installing", sys.executable, "-c", command]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_what_a_command_printed_is_shown_where_it_fails() -> None:
    done = as_a_script("print('no space left'); raise SystemExit(3)")
    assert (done.returncode, done.stdout, done.stderr) == (3, "Installing\n", "no space left\n")


def test_a_command_that_works_costs_one_line() -> None:
    done = as_a_script("print('Collecting ruff')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Installing\n", "")
