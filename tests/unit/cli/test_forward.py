"""The kubectl that forwards a port: how it is called, what it may say, and that it ends with the plugin."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.served import until
from winpool.cli import forward
from winpool.cli.forward import command, forwarded
from winpool.cli.reasons import NotAskedError

GUARD_SECONDS = 60.0


@pytest.fixture
def stub(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """Return what makes a program of these lines of shell."""

    def make(lines: str) -> tuple[str, ...]:
        program = tmp_path / "kubectl"
        program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{lines}\n")
        program.chmod(0o755)
        return (str(program), "port-forward", "pod/a")

    return make


def lives(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


LISTENS = "echo 'Forwarding from 127.0.0.1:4711 -> 8080'"


def test_kubectl_gets_the_cluster_that_the_person_has_named() -> None:
    argv = command("winpool-1", namespace="winpool-system", port="metrics", kubeconfig="k", context="c")
    assert argv == (
        *("kubectl", "--kubeconfig", "k", "--context", "c", "--namespace", "winpool-system"),
        *("port-forward", "--address", "127.0.0.1", "pod/winpool-1", ":metrics"),
    )
    assert "--context" not in command("a", namespace="b", port="c", kubeconfig=None, context=None)


async def test_it_gives_the_port_and_ends_kubectl(
    stub: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    async with forwarded(stub(f"{LISTENS}; exec sleep 600")) as port:
        assert port == 4711
        assert lives(tmp_path)
    assert not lives(tmp_path)


async def test_it_ends_a_kubectl_that_does_not_want_to_end(
    stub: Callable[[str], tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "END_SECONDS", 0.1)
    async with forwarded(stub(f"trap '' TERM\n{LISTENS}\nwhile :; do read -r line < /dev/zero; done")):
        pass
    assert not lives(tmp_path)


async def test_a_plugin_that_is_ended_while_it_waits_leaves_no_kubectl(
    stub: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    async def wait() -> None:
        async with forwarded(stub("exec sleep 600")):
            pass

    task = asyncio.create_task(wait())
    async with asyncio.timeout(GUARD_SECONDS):
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not lives(tmp_path)


async def test_a_kubectl_that_writes_without_end_does_not_have_to_wait(
    stub: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    """Pipes are small, and kubectl says a word for each connection."""
    talks = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"
    async with forwarded(stub(f"{LISTENS}; {talks}; touch {tmp_path}/done; exec sleep 600")):
        async with asyncio.timeout(GUARD_SECONDS):
            await until((tmp_path / "done").exists)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo 'error: pods \"a\" not found' >&2; exit 1", 'port-forward pod/a: pods "a" not found'),
        ("printf 'one\\033[2J\\ntwo' >&2; exit 1", r"one\\x1b\[2J two"),
        ("exit 1", "it ended without a word"),
        ("echo Forwarding from nowhere; exit 0", "it ended without a word"),
        ("head -c 200000 /dev/zero; exit 1", "it ended without a word"),
    ],
)
async def test_a_kubectl_that_does_not_listen_is_quoted(
    stub: Callable[[str], tuple[str, ...]], lines: str, said: str
) -> None:
    with pytest.raises(NotAskedError, match=said):
        async with forwarded(stub(lines)):
            pass


@pytest.mark.slow
async def test_a_kubectl_that_hangs_is_not_waited_for(
    stub: Callable[[str], tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "BEGIN_SECONDS", 1.0)
    with pytest.raises(NotAskedError, match="it did not listen within 1 s"):
        async with forwarded(stub("exec sleep 600")):
            pass
    assert not lives(tmp_path)


async def test_without_kubectl_it_says_what_to_do() -> None:
    with pytest.raises(NotAskedError, match=r"/no/kubectl cannot be started \(No such file.*--url"):
        async with forwarded(("/no/kubectl",)):
            pass
