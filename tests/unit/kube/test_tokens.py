"""Tokens stay fresh, bad ones are refused with a reason, and none is ever shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from winpool.kube.credentials import FixedHeader, TokenFile, bearer
from winpool.kube.errors import CredentialsError

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Clock:
    """Both clocks of a test, moved together."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000)


# Files


async def test_a_token_file_is_read_again_after_ten_seconds(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("one\n")
    tokens = TokenFile(path, monotonic=clock.monotonic)
    assert await tokens.header() == "Bearer one"
    path.write_text("two\n")
    clock.seconds += 9.9
    assert await tokens.header() == "Bearer one"
    clock.seconds += 0.1
    assert await tokens.header() == "Bearer two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    tokens = TokenFile(path, monotonic=Clock().monotonic)
    old = await tokens.header()
    path.write_text("two")
    tokens.reject(old)
    assert await tokens.header() == "Bearer two"
    path.write_text("three")
    tokens.reject(old)
    assert await tokens.header() == "Bearer two", (
        "a late answer about the first says nothing about the second"
    )


@pytest.mark.parametrize("content", [None, "", " \n", "two tokens", "t\u00f6ken", "a\x00b"])
async def test_a_bad_file_does_not_take_the_token_away(
    tmp_path: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("good")
    tokens = TokenFile(path, monotonic=clock.monotonic)
    await tokens.header()
    path.unlink()
    if content is not None:
        path.write_text(content)
    for _ in range(3):
        clock.seconds += 10
        assert await tokens.header() == "Bearer good"
    assert len(caplog.messages) == 1
    path.write_text("better")
    clock.seconds += 10
    assert await tokens.header() == "Bearer better"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"s3cret t0ken", "does not hold a token"),
        (b"\xff\xfe", "cannot be read: not text"),
    ],
)
async def test_without_any_token_there_is_an_error_and_never_an_anonymous_request(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    tokens = TokenFile(path, monotonic=Clock().monotonic)
    with pytest.raises(CredentialsError) as caught:
        await tokens.header()
    assert problem in caught.value.message
    assert str(path) in caught.value.message
    assert "s3cret" not in str(caught.value)
    path.write_text("late")
    assert await tokens.header() == "Bearer late"


def test_a_token_loses_the_newline_that_http_refuses() -> None:
    assert bearer("abc\r\n", source="x") == "Bearer abc"


async def test_fixed_headers_stay() -> None:
    fixed = FixedHeader("Basic x")
    fixed.reject("Basic x")
    assert await fixed.header() == "Basic x"
    assert await FixedHeader(None).header() is None


# Plugins
