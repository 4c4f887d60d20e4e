"""The client is killed at a write, and what was applied by then is known."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from cluster.faults.client import GUARD_SECONDS, MAPS
from testbed.cluster import Testbed
from testbed.faults import FaultProxy

SENDER = """
import sys, threading, urllib.request, ssl
server, ca, token, path, at_once, *names = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
def send(name):
    data = b'{"data":{"value":"new"}}'
    request = urllib.request.Request(f"{server}{path}/{name}", method="PATCH", data=data)
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/merge-patch+json")
    urllib.request.urlopen(request, context=tls).read()
threads = [threading.Thread(target=send, args=(name,)) for name in names]
for thread in threads:
    thread.start()
    if at_once != "yes":
        thread.join()
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at_once", [False, True], ids=["in-turn", "at-once"])
def test_the_operator_is_killed_at_its_nth_write(
    testbed: Testbed, proxy: FaultProxy, tester: str, name: str, when: Any, *, at_once: bool
) -> None:
    names = [name, *(f"{name}-{number}" for number in range(2, 9))]
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": each}} for each in names[1:]]
    others = json.dumps({"apiVersion": "v1", "kind": "List", "items": maps})
    testbed.kubectl("create", "-n", "faults", "-f", "-", stdin=others)
    pids: list[int] = []
    proxy.kill_operator_on(5, when=when, pid=lambda: pids[0])
    place = [proxy.server, str(testbed.ca_file), tester, MAPS]
    command = [sys.executable, "-c", SENDER, *place, "yes" if at_once else "no", *names]
    with subprocess.Popen(command) as process:
        pids.append(process.pid)  # long before it has begun to run
        assert process.wait(timeout=GUARD_SECONDS) == -signal.SIGKILL
    killed = proxy.wait_for(lambda each: f"kill {when}" in each.actions and each.done)
    assert (killed.number, killed.forwarded, killed.applied) == (5, when == "after", when == "after")
    proxy.wait_for(lambda each: each.done, count=len(proxy.log))
    applied = {each.name for each in proxy.writes() if each.applied}
    assert {each.name for each in proxy.log[:4]} <= applied
    found = testbed.kubectl("get", "configmaps", *names, "-n", "faults", "-o", "json").stdout
    changed = [each for each in json.loads(found)["items"] if each.get("data") == {"value": "new"}]
    assert {each["metadata"]["name"] for each in changed} == applied
    if when == "before":
        assert len(proxy.log) == 5
    if not at_once:
        assert applied == set(names[: 5 if when == "after" else 4])
