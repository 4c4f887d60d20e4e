"""``kubectl winpool status`` on a real API server, with and without an operator, and where it cannot ask."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed

SPEC: dict[str, Any] = {"labels": {"example.com/team": "payments"}}
PLUGIN = [sys.executable, "-m", "winpool.cli"]


def environment(kubeconfig: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    return {**ours, "KUBECONFIG": str(kubeconfig), "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def winpool(kubeconfig: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the plugin to its end."""
    return subprocess.run(
        [*PLUGIN, *arguments],
        env=environment(kubeconfig),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def shown(world: World, *arguments: str) -> str:
    """Return what it prints as cluster admin, where that goes well."""
    done = winpool(world.testbed.kubeconfig("admin"), "status", *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def content(world: World, name: str) -> dict[str, Any]:
    """Return what it says of one pool to a program."""
    (pool,) = json.loads(shown(world, name, "-o", "json"))["pools"]
    return dict(pool)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.nightly
def test_a_pool_that_is_up_to_date(world: World) -> None:
    nodes = world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    text = shown(world, pool)
    assert "3 up to date" in squeezed(text)
    assert "UpToDate" in text
    assert "10.0.20348" in text
    assert "\x1b" not in text, "a pipe gets no colours"
    assert shown(world, f"wnp/{pool}", "-o", "json") == shown(world, pool, "-o", "json")
    found = content(world, pool)
    assert (found["state"], found["nodes"], found["upToDateNodes"]) == ("UpToDate", 3, 3)
    assert found["conditions"] == []
    assert found["nodeGroups"] == [{"state": "UpToDate", "count": 3, "nodes": nodes}]


@pytest.mark.nightly
def test_nodes_in_trouble_are_named_and_the_conditions_that_say_so(world: World) -> None:
    first, second, *_ = world.fleet(windows=4)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=4)
    world.kubectl("cordon", first, second)
    eventually(lambda: world.status(pool)["availableNodes"] == 2, what="the status tells of it")
    text = shown(world, pool)
    assert "TooFewAvailable" in text
    assert "Available=False" in text
    assert f"2 cordoned: {first}, {second}" in squeezed(text)
    assert [each["type"] for each in content(world, pool)["conditions"]] == ["Available"]


def test_without_an_operator_it_says_that_nobody_has_looked(world: World) -> None:
    pool = world.apply(world.pool(**SPEC))
    assert "the operator has not processed this pool yet" in squeezed(shown(world, pool))
    assert content(world, pool)["observedGeneration"] == -1


@pytest.mark.nightly
def test_an_operator_that_has_gone_leaves_a_status_that_is_said_to_be_behind(world: World) -> None:
    world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    world.operator.stop()
    assert "newest spec" not in shown(world, pool)
    world.apply(world.pool(labels={"example.com/team": "billing"}))
    assert "has not processed the newest spec" in squeezed(shown(world, pool))


@pytest.mark.nightly
def test_without_a_name_one_pool_is_shown_whole_and_several_as_a_line_each(world: World) -> None:
    one = world.apply(world.pool("one"))
    assert "Issues" in shown(world) or "has not processed" in squeezed(shown(world))
    two = world.apply(world.pool("two", nodeSelector={"matchLabels": {"example.com/none": "x"}}))
    head, *lines = shown(world).splitlines()
    assert head.split()[0] == "NAME"
    assert [line.split()[0] for line in lines] == [one, two]
    pools = json.loads(shown(world, "-o", "json"))["pools"]
    assert [each["name"] for each in pools] == [one, two]


@pytest.mark.nightly
def test_pools_are_chosen_by_names_and_labels_and_shown_in_the_format_that_is_asked_for(world: World) -> None:
    nodes = world.fleet(windows=2)
    one = world.apply(world.pool("one", **SPEC))
    two = world.apply(world.pool("two", nodeSelector={"matchLabels": {"example.com/none": "x"}}))
    three = world.apply(world.pool("three", nodeSelector={"matchLabels": {"example.com/none": "y"}}))
    world.kubectl("label", "wnp", one, two, f"example.com/run={world.suffix}")
    world.operator.start()
    world.wait_up_to_date(one, nodes=2)
    for other in (two, three):  # each call below reads all pools anew
        world.wait_up_to_date(other)
    chosen = ("-l", f"example.com/run={world.suffix}")

    def names(*arguments: str) -> list[str]:
        return [each["name"] for each in json.loads(shown(world, "-o", "json", *arguments))["pools"]]

    assert names("--all") == sorted([one, two, three])
    assert names(three, f"wnp/{one}") == sorted([one, three])
    assert names(*chosen) == sorted([one, two])
    assert shown(world, "-o", "name", *chosen) == world.kubectl("get", "wnp", "-o", "name", *chosen)
    assert yaml.safe_load(shown(world, "-o", "yaml", "--all")) == json.loads(
        shown(world, "-o", "json", "--all")
    )
    head, *lines = shown(world, "-o", "wide", one).splitlines()
    assert {"SUPPORTED", "HELD"} < {*head.split()}
    assert [line.split()[0] for line in lines] == [one]
    text = shown(world, one, two)
    assert text.count("\nPool:    ") == 1
    assert re.findall(r"^Pool:    (\S+),", text, re.MULTILINE) == sorted([one, two])
    assert "2 up to date" in squeezed(text)
    found = json.loads(shown(world, "-o", "json", one, two))["pools"]
    assert [each["nodeGroups"] for each in found if each["name"] == one] == [
        [{"state": "UpToDate", "count": 2, "nodes": nodes}]
    ]
    done = winpool(world.testbed.kubeconfig("admin"), "status", one, "nobody", "-o", "name")
    assert (done.returncode, done.stdout) == (1, f"windowsnodepool.winpool.dev/{one}\n")
    assert 'there is no WindowsNodePool "nobody"' in done.stderr


class Watching:
    """The plugin with ``-w``; ``lines`` are those that it has printed by now."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def until(self, check: Callable[[list[str]], object], *, what: str) -> None:
        eventually(lambda: check(list(self.lines)), what=what)

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code and what it said of it."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=10)
        self._reader.join(timeout=10)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()


@contextmanager
def watching(world: World, *arguments: str) -> Iterator[Watching]:
    with subprocess.Popen(
        [*PLUGIN, "status", "-w", *arguments],
        env=environment(world.testbed.kubeconfig("admin")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Watching(process)
        finally:
            process.kill()


@pytest.mark.nightly
def test_watching_sees_every_change_to_the_end_of_the_pool(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    with watching(world, pool, "-o", "json") as seen:

        def last(lines: list[str]) -> dict[str, Any]:
            pools = json.loads(lines[-1])["pools"] if lines else []
            return dict(pools[0]) if pools else {}

        seen.until(lambda lines: last(lines).get("state") == "UpToDate", what="the first picture")
        world.apply(world.pool(**SPEC, mode="Paused"))
        seen.until(lambda lines: last(lines).get("state") == "Paused", what="the change")
        world.delete(pool)
        seen.until(lambda lines: json.loads(lines[-1]) == {"pools": []}, what="the end of the pool")
        assert seen.interrupt() == (130, "")


def test_watching_a_pipe_writes_one_picture_below_the_other(world: World) -> None:
    pool = world.apply(world.pool(**SPEC))
    with watching(world, pool) as seen:
        seen.until(lambda lines: [line for line in lines if line.startswith("State:")], what="a picture")
        world.apply(world.pool(**SPEC, mode="DryRun"))
        seen.until(
            lambda lines: (
                [line.split()[-1] for line in lines if line.startswith("Mode:")] == ["Active", "DryRun"]
            ),
            what="a second picture",
        )
        assert seen.interrupt() == (130, "")
    assert not [line for line in seen.lines if "\x1b" in line]


@pytest.mark.nightly
def test_on_a_terminal_it_draws_over_what_it_drew_and_has_colours(world: World) -> None:
    pool = world.apply(world.pool(**SPEC))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PLUGIN, "status", "-w", pool],
        env=environment(world.testbed.kubeconfig("admin")),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    drawn = bytearray()

    def read() -> None:
        while True:
            try:
                drawn.extend(os.read(ours, 65_536))
            except OSError:  # what Linux says at the end of a terminal
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        eventually(lambda: b"Active" in drawn, what="a picture")
        world.apply(world.pool(**SPEC, mode="DryRun"))
        eventually(lambda: b"DryRun" in drawn, what="the next one")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait()
        reader.join(timeout=10)
        os.close(ours)
        if process.stderr is not None:
            process.stderr.close()
    assert bytes(drawn).count(b"\x1b[2J") == 1, "it is cleared once"
    assert bytes(drawn).count(b"\x1b[H") >= 2
    assert b"\x1b[1m" in drawn


def test_a_pool_that_there_is_not_is_a_sentence_and_exit_code_1(testbed: Testbed) -> None:
    for arguments in (
        ("status", "nobody"),
        ("status", "wnp/nobody", "-w"),
        ("join-config", "nobody"),
        ("runtimeclass", "nobody"),
    ):
        done = winpool(testbed.kubeconfig("admin"), *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert 'there is no WindowsNodePool "nobody"' in line
        assert "404" not in line


def test_no_pool_at_all_is_no_error(testbed: Testbed) -> None:
    done = winpool(testbed.kubeconfig("admin"), "status")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no WindowsNodePool" in done.stderr
    done = winpool(testbed.kubeconfig("admin"), "status", "-o", "json")
    assert json.loads(done.stdout) == {"pools": []}


MANIFEST = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: win-2022}
spec: {nodeSelector: {matchLabels: {agentpool: a}}, os: {version: "2022"}}
"""
ASKING = (
    ("status",),
    ("status", "win-2022"),
    ("join-config", "win-2022"),
    ("runtimeclass", "win-2022"),
    ("validate", "--dry-run=server", "-f", "-"),
)
"""Every way to ask a cluster."""


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_cluster_without_the_crd_is_told_by_name_with_what_installs_it(
    hasty: Testbed, arguments: tuple[str, ...]
) -> None:
    done = winpool(hasty.kubeconfig("admin"), *arguments, stdin=MANIFEST)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "install winpool with kubectl apply -f install.yaml" in line
    assert "404" not in line


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_server_that_does_not_answer_is_told_with_its_address(
    testbed: Testbed, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    text = testbed.kubeconfig("admin").read_text().replace(testbed.server, "https://127.0.0.1:1")
    (tmp_path / "kubeconfig").write_text(text)
    done = winpool(tmp_path / "kubeconfig", *arguments, stdin=MANIFEST)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "The connection to the server 127.0.0.1:1 was refused" in line


def test_who_may_not_list_pools_is_told_the_right_that_is_missing(testbed: Testbed) -> None:
    done = winpool(testbed.user_kubeconfig("jane"), "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'User "jane" cannot list resource "windowsnodepools" in API group "winpool.dev"' in done.stderr
    assert 'add the rule {apiGroups: ["winpool.dev"], resources: ["windowsnodepools"]' in done.stderr


def test_who_may_not_list_nodes_sees_the_rest(world: World) -> None:
    pool = world.apply(world.pool(**SPEC))
    role, user = f"pools-{world.suffix}", f"jim-{world.suffix}"
    world.kubectl(
        "create", "clusterrole", role, "--verb=list,watch", "--resource=windowsnodepools.winpool.dev"
    )
    world.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--user={user}")
    try:
        kubeconfig = world.testbed.user_kubeconfig(user)
        done = eventually(
            lambda: found if (found := winpool(kubeconfig, "status", pool)).returncode == 0 else None,
            what="the right to list pools",
        )
        assert done is not None
        assert f'User "{user}" cannot list resource "nodes"' in squeezed(done.stdout)
        assert "Mode:" in done.stdout
    finally:
        world.kubectl("delete", "clusterrolebinding,clusterrole", role)
