"""A proxy without a rule: all passes as it is, and soon."""

from __future__ import annotations

import json
import threading
import time

import pytest

from cluster.faults.client import MAPS, ROLE, USER, Client, label, read, step_of
from testbed.cluster import Testbed
from testbed.faults import FaultError, FaultProxy, on
from testbed.pins import chosen_pins


def test_requests_pass_unchanged_and_the_audit_log_names_the_client(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    assert client.patch(name, "new").json["data"] == {"value": "new"}
    port = client.local_port
    assert client.get(f"{MAPS}/{name}").json["data"] == {"value": "new"}
    missing = client.get(f"{MAPS}/none")
    assert (missing.status, missing.json["reason"]) == (404, "NotFound")
    assert client.local_port == port, "the connection is kept alive"
    proxy.wait_for(lambda each: each.done, count=3)
    patch, get, none = proxy.log
    assert (patch.verb, patch.resource, patch.namespace, patch.name, patch.status, patch.server_status) == (
        "patch", "configmaps", "faults", name, 200, 200,
    )  # fmt: skip
    assert (patch.user_agent, json.loads(patch.body)) == ("plain/1", {"data": {"value": "new"}})
    assert [each.number for each in proxy.log] == [1, 2, 3]
    assert all(each.done and each.forwarded and not each.actions for each in (patch, get, none))
    assert proxy.writes() == (patch,)
    assert patch.applied
    testbed.settle_audit()
    audited = [each for each in testbed.audit.requests(user=USER, resource="configmaps") if each.name == name]
    assert [(each.verb, each.code, each.user_agent) for each in audited] == [
        ("patch", 200, "plain/1"),
        ("get", 200, "plain/1"),
    ]


def test_kubectl_works_through_it_and_a_certificate_does_not(
    testbed: Testbed, proxy: FaultProxy, tester: str
) -> None:
    through = f"--kubeconfig={proxy.kubeconfig(ROLE)}"
    assert USER in testbed.kubectl(through, "auth", "whoami").stdout
    assert "kube-system" in testbed.kubectl(through, "get", "namespaces", "-o", "name").stdout
    agent = proxy.wait_for(on("list", "namespaces")).user_agent
    assert agent.startswith(f"kubectl/{chosen_pins().kubernetes}")
    with pytest.raises(FaultError, match="admin authenticates by certificate"):
        proxy.kubeconfig("admin")


def test_bodies_of_a_megabyte_pass_both_ways(client: Client, name: str) -> None:
    big = "x" * 1_000_000
    created = client.create(f"{name}-big", big=big)
    assert (created.status, len(created.json["data"]["big"])) == (201, len(big))
    assert len(client.get(MAPS).body) > len(big)


def test_lines_of_a_watch_come_one_by_one_as_they_happen(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        assert step_of(read(watch)) == ("ADDED", "")
        for text in ("a", "b"):
            label(testbed, name, text)
            assert step_of(read(watch)) == ("MODIFIED", text)
        [record] = proxy.open_watches
        assert (record.verb, record.name, record.status, record.done) == ("watch", name, 200, False)
        assert proxy.wait_for(lambda each: each.lines == 3)
        assert proxy.log[-1].is_open_watch
        proxy.clear()
        assert proxy.log == proxy.open_watches, "what is not over is not forgotten"
    client.__exit__()
    assert proxy.wait_for(lambda each: each.verb == "watch" and each.done)
    assert proxy.open_watches == ()


def test_forwarding_a_patch_costs_at_most_six_times_the_processor_time_of_sending_it(
    proxy: FaultProxy, client: Client, name: str
) -> None:
    """Both are processor time of this process in this run: a slow or busy machine changes both alike."""
    client.patch(name, "warm")
    forwarding, sending = time.pthread_getcpuclockid(_thread_of(proxy)), time.CLOCK_THREAD_CPUTIME_ID
    before = time.clock_gettime(forwarding), time.clock_gettime(sending)
    for number in range(200):
        assert client.patch(name, str(number)).status == 200
    forwarded, sent = time.clock_gettime(forwarding) - before[0], time.clock_gettime(sending) - before[1]
    assert forwarded < 6 * sent, f"{forwarded / sent:.1f} times; 2.5 is usual"


def _thread_of(proxy: FaultProxy) -> int:
    [thread] = [each for each in threading.enumerate() if each.name.endswith(proxy.server.rpartition(":")[2])]
    assert thread.ident is not None
    return thread.ident
