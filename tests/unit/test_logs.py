"""The log: one line for each message, whatever the message is made of."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.strategies import NASTY
from winpool import logs
from winpool.settings import LogFormat, Settings

LINE = re.compile(r"\d\d:\d\d:\d\d WARNING winpool\.test: ")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(log_format: LogFormat, *, message: str, raised: str | None = None) -> str:
    """Return what a warning writes to stderr, with an exception of these words where there are ``raised``."""
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        logs.configure(Settings(log_format=log_format))
        log = logging.getLogger("winpool.test")
        try:
            if raised is not None:
                raise ValueError(raised)
        except ValueError:
            log.warning("pool %s", message, exc_info=True)
        else:
            log.warning("pool %s", message)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = stderr


@given(st.text() | NASTY)
def test_a_message_is_one_printable_line_of_text(message: str) -> None:
    line = logged("text", message=message)
    assert line[-1] == "\n"
    assert line[:-1].isprintable()


@given(st.text() | NASTY)
def test_a_message_is_one_line_of_json_and_whole(message: str) -> None:
    line = logged("json", message=message)
    assert line[-1] == "\n"
    assert line[:-1].isprintable()
    assert line.isascii()
    assert json.loads(line)["message"] == f"pool {message}"


@given(message=st.text() | NASTY, raised=st.text() | NASTY)
def test_no_line_of_a_traceback_can_be_taken_for_one_of_the_log(message: str, raised: str) -> None:
    first, *rest = logged("text", message=message, raised=raised).removesuffix("\n").split("\n")
    assert LINE.match(first)
    assert rest[0] == "  Traceback (most recent call last):"
    assert [line for line in rest if not line.startswith("  ")] == []
    assert "".join((first, *rest)).isprintable()


@given(message=st.text() | NASTY, raised=st.text() | NASTY)
def test_a_traceback_stays_in_its_line_of_json(message: str, raised: str) -> None:
    line = logged("json", message=message, raised=raised)
    assert line[:-1].isprintable()
    assert "Traceback" in json.loads(line)["exc_info"]
