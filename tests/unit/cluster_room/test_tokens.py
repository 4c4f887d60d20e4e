"""Tokens stay fresh, bad ones are refused with a reason, and none is ever shown."""

from __future__ import annotations

import asyncio
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import GUARD_SECONDS
from winpool.kube import credentials as plugin_run
from winpool.kube.credentials import ExecPlugin, FixedHeader, PluginCommand, TokenFile, bearer, run_plugin
from winpool.kube.errors import CredentialsError

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
V1 = "client.authentication.k8s.io/v1"


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


def a_plugin(folder: Path, body: str, **block: object) -> PluginCommand:
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return PluginCommand.parse({"apiVersion": V1, "command": "./plugin", **block}, base=folder)


def answer(status: str, *, version: str = V1) -> str:
    return f'echo \'{{"apiVersion":"{version}","kind":"ExecCredential","status":{status}}}\''


async def test_a_plugin_is_run_in_the_kubeconfigs_folder_with_its_arguments_and_environment(
    tmp_path: Path,
) -> None:
    env = [{"name": "FROM_KUBECONFIG", "value": "yes"}]
    body = f'echo "$1 $FROM_KUBECONFIG $KUBERNETES_EXEC_INFO" > {tmp_path}/seen\n'
    body += answer('{"token":"t"}')
    status = await run_plugin(a_plugin(tmp_path, body, args=["login"], env=env))
    assert status.token == "t"
    assert status.expiration_timestamp is None
    assert (
        (tmp_path / "seen")
        .read_text()
        .startswith('login yes {"apiVersion":"client.authentication.k8s.io/v1"')
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo 'log in first' >&2; exit 3", "failed with exit code 3: log in first"),
        ("echo '{}'", "did not answer with an ExecCredential"),
        ("echo 's3cret'", "did not answer with an ExecCredential"),
        (answer("{}"), "gave no token"),
        (answer("null"), "gave no token"),
        (
            answer('{"clientCertificateData":"x","clientKeyData":"y"}'),
            "client certificates are not supported",
        ),
        (answer('{"token":"s3cret"}', version="v0"), "answered in v0"),
    ],
)
async def test_a_failing_plugin_says_why(tmp_path: Path, body: str, problem: str) -> None:
    clock = Clock()
    plugin = ExecPlugin(a_plugin(tmp_path, body), monotonic=clock.monotonic, now=clock.now)
    with pytest.raises(CredentialsError) as caught:
        await plugin.header()
    assert problem in caught.value.message
    assert "s3cret" not in str(caught.value)


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_run, "RUN_SECONDS", 0.2)
    with pytest.raises(CredentialsError, match="gave no answer within"):
        await run_plugin(a_plugin(tmp_path, "exec sleep 60"))


async def test_a_plugin_that_does_not_exist_says_so(tmp_path: Path) -> None:
    command = PluginCommand.parse({"apiVersion": V1, "command": "./missing"}, base=tmp_path)
    with pytest.raises(CredentialsError, match="cannot be started: No such file"):
        await run_plugin(command)


def counting(folder: Path, *, expires: datetime | None) -> PluginCommand:
    """A plugin whose nth run answers token-n."""
    when = f',"expirationTimestamp":"{expires.isoformat()}"' if expires else ""
    body = f"echo x >> {folder}/runs; n=$(wc -l < {folder}/runs | tr -d ' ')\n"
    body += f'printf \'{{"apiVersion":"{V1}","kind":"ExecCredential",\'\n'
    body += f'printf \'"status":{{"token":"token-%s"{when}}}}}\' "$n"'
    return a_plugin(folder, body)


async def test_a_plugin_is_run_again_shortly_before_its_token_expires(tmp_path: Path) -> None:
    clock = Clock()
    command = counting(tmp_path, expires=NOON + timedelta(seconds=600))
    plugin = ExecPlugin(command, monotonic=clock.monotonic, now=clock.now)
    assert await plugin.header() == "Bearer token-1"
    clock.seconds += 539
    assert await plugin.header() == "Bearer token-1"
    clock.seconds += 2
    assert await plugin.header() == "Bearer token-1", "nobody waits while it is good"
    async with asyncio.timeout(GUARD_SECONDS):
        while await plugin.header() != "Bearer token-2":  # noqa: ASYNC110 - a shell sets no asyncio.Event
            await asyncio.sleep(0.02)
    assert await plugin.header() == "Bearer token-2", "it still expires soon, but ran just now"
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_refused_token_of_a_plugin_is_renewed_but_not_in_a_storm(tmp_path: Path) -> None:
    clock = Clock()
    plugin = ExecPlugin(counting(tmp_path, expires=None), monotonic=clock.monotonic, now=clock.now)
    first = await plugin.header()
    plugin.reject(first)
    assert await plugin.header() == first, "it ran less than ten seconds ago"
    clock.seconds += 10
    second = await plugin.header()
    assert second == "Bearer token-2"
    plugin.reject(first)
    clock.seconds += 10
    assert await plugin.header() == second


async def test_a_plugin_that_fails_later_keeps_the_token_while_it_is_good(tmp_path: Path) -> None:
    clock = Clock()
    command = counting(tmp_path, expires=NOON + timedelta(seconds=600))
    plugin = ExecPlugin(command, monotonic=clock.monotonic, now=clock.now)
    await plugin.header()
    (tmp_path / "plugin").write_text("#!/bin/sh\nexit 1\n")
    clock.seconds += 550
    assert await plugin.header() == "Bearer token-1"
    clock.seconds += 60
    with pytest.raises(CredentialsError, match="exit code 1"):
        await plugin.header()


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({}, "names no command"),
        ({"command": "x"}, "apiVersion must be"),
        ({"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}, "apiVersion must be"),
        ({"command": "x", "apiVersion": V1, "interactiveMode": "Always"}, "wants a terminal"),
        ({"command": "x", "apiVersion": V1, "provideClusterInfo": True}, "not supported"),
    ],
)
def test_an_exec_block_that_cannot_work_is_refused(block: dict[str, object], problem: str) -> None:
    with pytest.raises(CredentialsError, match=problem):
        PluginCommand.parse(block, base=Path("/nowhere"))


def test_a_command_without_a_slash_is_looked_up_in_path() -> None:
    command = PluginCommand.parse({"command": "aws", "apiVersion": V1}, base=Path("/etc/kube"))
    assert command.argv == ("aws",)
