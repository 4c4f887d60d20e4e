"""A plugin is bounded in time, in what it writes and in what it leaves behind, and a run is shared."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cluster.door import until
from harness.waiting import GUARD_SECONDS
from winpool.kube import client as transport
from winpool.kube import credentials as plugin_run
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection, ExecPlugin, PluginCommand, Tls, TlsFiles, run_plugin
from winpool.kube.errors import CredentialsError
from winpool.kube.feed import OwnTasks
from winpool.kube.request import Request

V1 = "client.authentication.k8s.io/v1"
GOOD = f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"t"}}}}\''
LIST = Request(verb="list", resource="nodes", path="/api/v1/nodes")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def a_plugin(folder: Path, body: str) -> PluginCommand:
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return PluginCommand.parse({"apiVersion": V1, "command": "./plugin"}, base=folder)


def is_gone(pid_file: Path) -> bool:
    """Tell whether the process whose ID a plugin wrote down is gone, or dead and waits to be buried."""
    pid = int(pid_file.read_text())
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


async def test_the_limit_holds_although_a_child_keeps_the_pipes_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_run, "RUN_SECONDS", 0.5)
    command = a_plugin(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; wait")
    async with asyncio.timeout(GUARD_SECONDS):
        with pytest.raises(CredentialsError, match="gave no answer within"):
            await run_plugin(command)
    await until(lambda: is_gone(tmp_path / "child"), what="the child is killed with its parent")


async def test_an_answer_counts_although_a_child_that_was_left_behind_keeps_the_pipes_open(
    tmp_path: Path,
) -> None:
    command = a_plugin(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child\n{GOOD}")
    async with asyncio.timeout(GUARD_SECONDS):
        assert (await run_plugin(command)).token == "t"
    await until(lambda: is_gone(tmp_path / "child"), what="nothing of a plugin is left")


async def test_a_child_in_a_session_of_its_own_cannot_hold_us_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_run, "LAST_WORDS_SECONDS", 0.1)
    body = f"setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 600' &\n"
    body += f"until [ -s {tmp_path}/child ]; do sleep 0.05; done\n{GOOD}"
    command = a_plugin(tmp_path, body)
    before = open_files()
    try:
        async with asyncio.timeout(GUARD_SECONDS / 2):
            assert (await run_plugin(command)).token == "t"
        await until(lambda: open_files() <= before, what="its pipes are closed on our side")
        assert not is_gone(tmp_path / "child"), "it lives, and has them still"
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("where", ["", ">&2"])
async def test_what_a_plugin_writes_is_bounded(tmp_path: Path, where: str) -> None:
    with pytest.raises(CredentialsError, match="wrote more than 1048576 bytes"):
        await run_plugin(a_plugin(tmp_path, f"head -c 300000000 /dev/zero {where}"))


async def test_an_argument_that_no_program_can_get_is_an_error_of_ours(tmp_path: Path) -> None:
    a_plugin(tmp_path, GOOD)
    command = PluginCommand.parse({"apiVersion": V1, "command": "./plugin", "args": ["a\0b"]}, base=tmp_path)
    with pytest.raises(CredentialsError, match="cannot be started"):
        await run_plugin(command)


async def test_deeply_nested_output_is_an_error_of_ours(tmp_path: Path) -> None:
    body = """head -c 200000 /dev/zero | tr '\\0' '['"""
    with pytest.raises(CredentialsError, match="did not answer with an ExecCredential"):
        await run_plugin(a_plugin(tmp_path, f"printf '%s' '{{\"x\":'; {body}"))


# Sharing a run


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[ExecPlugin]:
    """A plugin that answers when the file "go" is there."""
    body = f"echo x >> {tmp_path}/runs; echo $$ > {tmp_path}/pid\n"
    body += f"until [ -e {tmp_path}/go ]; do sleep 0.05; done\n{GOOD}"
    plugin = ExecPlugin(a_plugin(tmp_path, body), monotonic=time.monotonic, now=lambda: datetime.now(UTC))
    yield plugin
    await plugin.close()


async def test_a_request_that_gives_up_does_not_end_the_run_that_others_wait_for(
    tmp_path: Path, slow: ExecPlugin
) -> None:
    async with asyncio.timeout(GUARD_SECONDS):
        patient = asyncio.create_task(slow.header())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await slow.header()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await slow.header()
        (tmp_path / "go").touch()
        assert await patient == "Bearer t"
        assert await slow.header() == "Bearer t"
    assert (tmp_path / "runs").read_text() == "x\n", "one run for all"


async def test_a_run_that_the_first_request_gave_up_on_still_gives_the_token(
    tmp_path: Path, slow: ExecPlugin
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await slow.header()
    (tmp_path / "go").touch()
    async with asyncio.timeout(GUARD_SECONDS):
        assert await slow.header() == "Bearer t"
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_request_waits_for_credentials_within_its_own_limit(
    tmp_path: Path, slow: ExecPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_SECONDS", 0.3)
    tls = Tls(TlsFiles(), monotonic=time.monotonic)
    connection = Connection(server="https://127.0.0.1:1", tls=tls, authorization=slow)
    async with asyncio.timeout(GUARD_SECONDS), Transport(connection) as door:
        with pytest.raises(CredentialsError, match="has not answered within 0 s and is waited for"):
            await door.request(LIST)
        await until((tmp_path / "pid").exists, what="the plugin runs")
        assert not is_gone(tmp_path / "pid"), "the plugin may take longer"
    await until(lambda: is_gone(tmp_path / "pid"), what="closing the door ends it")


async def test_a_run_that_kopf_was_the_first_to_need_is_not_kopfs_to_cancel(
    tmp_path: Path, slow: ExecPlugin
) -> None:
    loop, own = asyncio.get_running_loop(), OwnTasks()
    own.watch(loop)
    waiting = loop.create_task(slow.header(), context=own.feed_context())
    await until((tmp_path / "pid").exists, what="the plugin runs")
    (run,) = [task for task in asyncio.all_tasks() if task.get_name() == "exec plugin"]
    assert waiting not in own
    assert run in own
    (tmp_path / "go").touch()
    async with asyncio.timeout(GUARD_SECONDS):
        assert await waiting == "Bearer t"
