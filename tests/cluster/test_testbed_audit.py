"""Users that a testbed makes, and the audit log: who asked for what, each request once."""

from __future__ import annotations

import os
import subprocess
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from cluster.processes import GUARD_SECONDS
from testbed.pins import chosen_pins
from testbed.waiting import wait_until

if TYPE_CHECKING:
    from testbed.cluster import Testbed


@pytest.fixture
def user() -> str:
    """A user nobody else is, so that the audit log has this test's requests alone."""
    return f"user-{uuid.uuid4().hex[:8]}"


def test_the_audit_log_shows_each_request_once_with_its_user(testbed: Testbed, user: str) -> None:
    config = testbed.user_kubeconfig(user, groups=("system:masters",))
    since = datetime.now(UTC)
    as_user = f"--kubeconfig={config}"
    try:
        testbed.kubectl(as_user, "create", "configmap", user)
        testbed.kubectl(as_user, "label", "configmap", user, "a=b")
        testbed.kubectl(as_user, "get", "configmap", "does-not-exist", check=False)
    finally:
        testbed.kubectl(as_user, "delete", "configmap", user)
    testbed.settle_audit()
    written = testbed.audit.writes(user=user, since=since, resource="configmaps")
    assert [(record.verb, record.name, record.code) for record in written] == [
        ("create", user, 201),
        ("patch", user, 200),
        ("delete", user, 200),
    ]
    missing = [r for r in testbed.audit.reads(user=user, resource="configmaps") if r.name == "does-not-exist"]
    assert [record.code for record in missing] == [404]
    assert written[0].user_agent.startswith(f"kubectl/{chosen_pins().kubernetes}")
    assert testbed.audit.writes(user=user, until=since) == []


def test_a_user_without_rights_is_refused_and_the_audit_log_says_so(testbed: Testbed, user: str) -> None:
    config = testbed.user_kubeconfig(user)
    done = testbed.kubectl(f"--kubeconfig={config}", "get", "nodes", check=False)
    assert "Forbidden" in done.stderr
    testbed.settle_audit()
    assert {record.code for record in testbed.audit.reads(user=user, resource="nodes")} == {403}


def test_a_running_watch_shows_in_the_audit_log_and_stays_one_request(testbed: Testbed, user: str) -> None:
    config = testbed.user_kubeconfig(user, groups=("system:masters",))
    command = [str(testbed.kubectl_path), f"--kubeconfig={config}", "get", "configmaps", "--watch"]
    environment = {**os.environ, **testbed.environment}

    def watches() -> list[tuple[str, bool]]:
        found = testbed.audit.requests(user=user, verbs={"watch"}, resource="configmaps")
        return [(record.stage, record.completed is not None) for record in found]

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as watching:
        try:
            wait_until(
                lambda: watches() == [("ResponseStarted", False)],
                what="the running watch",
                timeout_seconds=GUARD_SECONDS,
                explain=lambda: f"; seen: {watches()}",
            )
        finally:
            watching.terminate()
    wait_until(
        lambda: watches() == [("ResponseComplete", True)],
        what="the end of the watch",
        timeout_seconds=GUARD_SECONDS,
        explain=lambda: f"; seen: {watches()}",
    )
