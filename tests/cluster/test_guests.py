"""Simulated nodes in the cluster of a person: by impersonation, and not as its front proxy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.nodes import taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from testbed.guests import SIMULATED, TAINTS

COMMAND = [sys.executable, "-m", "testbed.guests"]


def run(kubeconfig: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments, f"--kubeconfig={kubeconfig}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ),
    )


def guests(world: World) -> list[dict[str, Any]]:
    return list(world.get("nodes", "-l", f"{SIMULATED}=true")["items"])


def are_ready(world: World, count: int) -> bool:
    ready = [
        each
        for each in guests(world)
        if any(c["type"] == "Ready" and c["status"] == "True" for c in each["status"].get("conditions", ()))
    ]
    return len(ready) == count


@pytest.mark.nightly
def test_guests_join_tainted_are_in_a_pool_and_leave_with_ctrl_c(world: World) -> None:
    world.operator.start()
    label = f"--label=example.com/run={world.suffix}"
    joining = run(
        world.testbed.kubeconfig("admin"),
        *("join", "--windows=2", f"--prefix=g{world.suffix}", label, "--yes"),
    )
    try:
        eventually(lambda: are_ready(world, 2), what="two simulated nodes Ready")
        for node in guests(world):
            assert set(TAINTS) <= set(taints_of(node))
        world.wait_written(world.apply(world.pool()), nodes=2)
        again = run(
            world.testbed.kubeconfig("admin"), "join", "--windows=2", f"--prefix=g{world.suffix}", "--yes"
        )
        assert "the cluster has nodes of these names" in again.communicate(timeout=60)[0]
    finally:
        joining.send_signal(signal.SIGINT)
        said, _ = joining.communicate(timeout=60)
    assert joining.returncode == 0, said
    assert "No machine is behind them" in said
    assert not guests(world)


@pytest.mark.nightly
def test_what_was_left_leaves_with_one_command(world: World) -> None:
    joining = run(
        world.testbed.kubeconfig("admin"), "join", "--windows=1", f"--prefix=g{world.suffix}", "--yes"
    )
    eventually(lambda: are_ready(world, 1), what="a simulated node Ready")
    joining.kill()
    joining.communicate()
    leaving = run(world.testbed.kubeconfig("admin"), "leave")
    assert "deleted" in leaving.communicate(timeout=60)[0]
    assert not guests(world)


def test_who_may_not_impersonate_is_told(testbed: Testbed, world: World) -> None:
    user = f"viewer-{world.suffix}"
    world.kubectl("create", "clusterrolebinding", user, "--clusterrole=view", f"--user={user}")
    world.kubectl("create", "clusterrole", user, "--verb=list", "--resource=nodes")
    world.kubectl("create", "clusterrolebinding", f"{user}-nodes", f"--clusterrole={user}", f"--user={user}")
    asked = ("auth", "can-i", "list", "nodes", "--as", user)
    try:
        eventually(lambda: world.kubectl(*asked, check=False).startswith("yes"), what="the rights are known")
        joining = run(testbed.user_kubeconfig(user), "join", "--yes")
        said = joining.communicate(timeout=60)[0]
    finally:
        world.kubectl("delete", "clusterrolebinding", user, f"{user}-nodes")
        world.kubectl("delete", "clusterrole", user)
    assert joining.returncode == 1
    assert "you may not impersonate groups/system:nodes" in said
