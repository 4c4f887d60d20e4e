"""A real API server that is restarted and has forgotten all old versions: its own 410s (P1, P4)."""

from __future__ import annotations

import contextlib
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from harness.streams import NODES_WATCH, POOLS_WATCH, Stage, kept_in, staged
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import Record, alter, call, event, on, rewrite

Object = dict[str, Any]


@pytest.mark.nightly
def test_a_restarted_api_server_that_knows_no_old_versions_is_caught_up_with(
    fragile: Testbed, tmp_path: Path
) -> None:
    world = World(fragile, directory=tmp_path)
    try:
        with staged(world, nodes=4) as stage:
            catch_up_with_a_restart(stage)
            list_across_a_restart(stage)
    finally:
        world.close()


def catch_up_with_a_restart(stage: Stage) -> None:
    """Have the watches go on from versions that are gone: a real 410 in the stream."""
    drifted, deleted, *_ = stage.quiet
    errors: list[bytes] = []
    before = {name: each for name, each in stage.world.carried().items() if name != deleted}
    for match in (NODES_WATCH, POOLS_WATCH):
        stage.proxy.add(match, alter(kept_in(errors), where=event("ERROR")))
    stage.proxy.refuse_connections()
    stage.drift(drifted)
    stage.world.kubectl("delete", "node", deleted)
    stage.edit("payments-2")
    stage.edit("payments")
    restart_without_history(stage.world.testbed)
    stage.proxy.accept_connections()
    stage.wait_repaired(drifted)
    stage.world.wait_up_to_date(stage.pool, nodes=3)
    assert stage.world.carried() == before
    codes = [json.loads(line)["object"]["code"] for line in errors]
    assert codes
    assert set(codes) == {410}


def list_across_a_restart(stage: Stage) -> None:
    """Have the API server forget a continue token between two pages: a real 410 as a status."""
    drifted = stage.quiet[2]
    testbed = stage.world.testbed
    before = stage.world.carried()
    second_page = on("list", "nodes", path="continue=")
    stage.proxy.heal()
    stage.proxy.clear()
    stage.proxy.add(on("list", "nodes"), rewrite(lambda path: path.replace("limit=500", "limit=2")))

    def forget(_: Record) -> None:
        stage.drift(drifted)
        restart_without_history(testbed)

    stage.proxy.add(second_page, call(forget), nth=1)
    stage.expire()
    assert stage.proxy.wait_for(lambda each: second_page(each) and each.done).status == 410
    stage.wait_repaired(drifted)
    stage.world.wait_up_to_date(stage.pool, nodes=3)
    assert stage.world.carried() == before


def restart_without_history(testbed: Testbed) -> None:
    """Have etcd drop all old versions, and the API server its memory of them."""
    status = etcd(testbed, "maintenance/status", {})
    etcd(testbed, "kv/compaction", {"revision": status["header"]["revision"], "physical": True})
    apiserver = testbed.component("apiserver")
    apiserver.kill()
    apiserver.start()
    apiserver.wait_ready()


def etcd(testbed: Testbed, path: str, body: Object) -> Object:
    """Ask etcd by its HTTP gateway."""
    connection = http.client.HTTPConnection(testbed.etcd_url.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", f"/v3/{path}", body=json.dumps(body))
        answered = connection.getresponse()
        told: Object = json.load(answered)
        assert answered.status == 200, told
        return told
