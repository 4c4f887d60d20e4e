"""The testbed itself, on the real thing: what tests do to it and its components, and its tokens."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import jwt
import pytest

from cluster.processes import GUARD_SECONDS, NAMES, wait_for_none_of
from testbed.cli import main
from testbed.cluster import Testbed
from testbed.control import ComponentState
from testbed.errors import TestbedError
from testbed.paths import Layout
from testbed.pins import chosen_pins
from testbed.process import start_time
from testbed.state import State
from testbed.tokens import subject
from testbed.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A testbed that tests may break, as long as they mend it."""
    # A name as long as people's home directories may be: socket addresses hold 107 bytes.
    with Testbed.up(directory=tmp_path_factory.mktemp("d" * 80), windows=2, linux=1) as running:
        running.kubectl("create", "namespace", "winpool-system")
        running.kubectl("create", "serviceaccount", "winpool", "-n", "winpool-system")
        yield running


def pids(testbed: Testbed) -> dict[str, int | None]:
    return {status.name: status.pid for status in testbed.components()}


def control_plane_states(testbed: Testbed) -> set[ComponentState]:
    return {status.state for status in testbed.components() if status.name in NAMES}


def test_nodes_of_both_kinds_are_there(own: Testbed) -> None:
    path = r"jsonpath={.items[*].metadata.labels.kubernetes\.io/os}"
    kinds = own.kubectl("get", "nodes", "-o", path).stdout
    assert Counter(kinds.split()) == {"windows": 2, "linux": 1}


@pytest.mark.nightly
def test_it_is_the_version_it_was_built_from(own: Testbed) -> None:
    assert f'"gitVersion": "{chosen_pins().kubernetes}"' in own.kubectl("get", "--raw", "/version").stdout


@pytest.mark.nightly
def test_two_stand_side_by_side(own: Testbed, tmp_path: Path) -> None:
    before = pids(own)
    with Testbed.up(directory=tmp_path) as other:
        assert other.server != own.server
        other.kubectl("create", "namespace", "only-there")
        assert own.kubectl("get", "namespace", "only-there", check=False).returncode == 1
        refused = other.kubectl("get", "namespaces", f"--server={own.server}", check=False)
        assert "certificate" in refused.stderr
    wait_for_none_of(tmp_path)
    assert pids(own) == before
    assert control_plane_states(own) == {ComponentState.RUNNING}


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_component_is_reported_and_can_be_started_again(own: Testbed, name: str) -> None:
    own.kubectl("create", "configmap", f"before-{name}")
    component = own.component(name)
    before = pids(own)
    component.kill()
    assert (component.status.state, component.status.exit) == (ComponentState.EXITED, "SIGKILL")
    with pytest.raises(TestbedError, match=rf"{name} does not run \(SIGKILL\)"):
        _ = component.pid
    component.start()
    component.wait_ready()
    after = pids(own)
    assert after.pop(name) != before.pop(name)
    assert after == before
    for each in NAMES:
        own.component(each).wait_ready()
    own.kubectl("get", "configmap", f"before-{name}")


def test_a_component_can_be_paused(own: Testbed) -> None:
    scheduler = own.component("scheduler")
    scheduler.kill(signal.SIGSTOP)
    wait_until(
        lambda: scheduler.status.state is ComponentState.PAUSED,
        what="the scheduler to be paused",
        timeout_seconds=GUARD_SECONDS,
    )
    scheduler.kill(signal.SIGCONT)
    scheduler.wait_ready()


def test_further_processes_have_a_log_no_input_and_an_exit_status(own: Testbed) -> None:
    greeter = own.run("greeter", [sys.executable, "-c", "print('hello', flush=True); input()"])
    wait_until(
        lambda: greeter.status.exit == "exit code 1",
        what="the process to end for want of input",
        timeout_seconds=GUARD_SECONDS,
    )
    assert own.layout.log("greeter").read_text().startswith("hello\n")


def test_an_unknown_component_is_named_with_those_that_exist(own: Testbed) -> None:
    with pytest.raises(TestbedError, match="no component 'kubelet'; there are: etcd, apiserver, kcm"):
        own.component("kubelet").kill()


@pytest.mark.parametrize(("shift", "ends"), [(-60.0, False), (0.0, True)], ids=["stranger", "supervisor"])
def test_down_ends_a_process_only_if_pid_and_start_time_match(
    own: Testbed, tmp_path: Path, shift: float, *, ends: bool
) -> None:
    state = State.read(own.layout)
    assert state is not None
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        started = start_time(process.pid) + shift
        state.model_copy(update={"pid": process.pid, "start_time": started}).write(Layout(tmp_path))
        assert main(["down", "--dir", str(tmp_path)]) == 0
        assert (process.poll() is not None) is ends
        process.kill()


def test_a_plugin_of_kubectl_is_found(testbed: Testbed, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-hello"
    plugin.write_text('#!/bin/sh\necho "hello $*"\n')
    plugin.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{testbed.environment['PATH']}"
    assert testbed.kubectl("hello", "big", "world", environment={"PATH": path}).stdout == "hello big world\n"


def test_the_operators_kubeconfig_is_the_service_account(own: Testbed) -> None:
    wait_until(own.layout.token.exists, what="the token", timeout_seconds=GUARD_SECONDS)
    shown = own.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", role="winpool")
    assert shown.stdout == subject()


@pytest.mark.parametrize(("lifetime", "accepted"), [(30.0, True), (-120.0, False)], ids=["valid", "expired"])
def test_a_token_is_accepted_until_it_expires(own: Testbed, lifetime: float, *, accepted: bool) -> None:
    token = own.mint_token(lifetime_seconds=lifetime)
    # No kubeconfig: its certificate would win over the token.
    cluster = ["--kubeconfig=/dev/null", f"--server={own.server}", f"--certificate-authority={own.ca_file}"]
    done = own.kubectl(*cluster, f"--token={token}", "auth", "whoami", check=False)
    assert (done.returncode == 0, subject() in done.stdout) == (accepted, accepted)
    assert ("Unauthorized" in done.stderr) is not accepted


def test_the_token_is_renewed_well_before_it_expires(own: Testbed) -> None:
    wait_until(own.layout.token.exists, what="the token", timeout_seconds=GUARD_SECONDS)
    seen: dict[str, tuple[float, int]] = {}

    def watch() -> bool:
        token = own.layout.token.read_text()
        claims = jwt.decode(token, options={"verify_signature": False})
        seen.setdefault(token, (datetime.now(UTC).timestamp(), claims["exp"]))
        return len(seen) >= 3

    watch()
    own.renew_token(lifetime_seconds=6)
    try:
        wait_until(watch, what="two new tokens", timeout_seconds=GUARD_SECONDS)
    finally:
        own.renew_token(lifetime_seconds=600)
    _, *short = seen.values()
    for (_, expires), (replaced, _) in itertools.pairwise(short):
        assert replaced < expires
