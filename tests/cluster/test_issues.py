"""The issues of a pool as the API server keeps them and kubectl shows them, and those of earlier versions."""

from __future__ import annotations

import json
from typing import Any, Final

from cluster.told import issues
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

MISMATCH: Final = "ReservedMemoryMismatch"
LOW: Final[Object] = {"reservedMemory": {"systemReserved": "1Gi", "evictionHard": 0}}
"""No simulated node reserves that, and it is less than is good practice: of nodes, and of the pool."""


def test_kubectl_shows_an_issue_in_at_most_ten_lines_and_what_it_is_about(world: World) -> None:
    names = sorted(world.fleet(windows=5))
    pool = world.apply(world.pool(**LOW))
    world.operator.start()
    status = world.wait_up_to_date(pool, nodes=5)
    [of_nodes], [of_pool] = issues(status, MISMATCH), issues(status, "ReservedMemoryLow")
    assert (of_nodes["nodeCount"], of_nodes["nodes"]) == (5, names[:3])
    assert (of_pool["nodeCount"], of_pool["nodes"]) == (0, [])
    assert status["issueCount"] == len(status["issues"]) == 2
    described = world.kubectl("describe", "wnp", pool)
    told = described.partition("\n  Issues:\n")[2].splitlines()
    section = told[: next(place for place, line in enumerate(told) if not line.startswith("    "))]
    assert section, described
    assert len(section) <= 10 * len(status["issues"])
    assert sum("Message:" in line for line in section) == 2


def test_since_goes_on_from_a_status_that_an_earlier_version_wrote(world: World) -> None:
    """It had an issue for each node. The name of the node is pruned by now."""
    names = sorted(world.fleet(windows=2))
    pool = world.apply(world.pool(**LOW))
    generation = world.get("wnp", pool)["metadata"]["generation"]
    hours = ("2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z")
    old = [
        {"node": name, "reason": MISMATCH, "since": since, "message": "the kubelet …", "fix": "restart it"}
        for name, since in zip(names, hours, strict=True)
    ]
    patch = json.dumps({"status": {"observedGeneration": generation, "issues": old}})
    world.kubectl("patch", "wnp", pool, "--subresource=status", "--type=merge", "-p", patch)
    assert [each.get("nodeCount") for each in world.status(pool)["issues"]] == [None, None]
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)

    def kept() -> bool:
        [issue] = issues(world.status(pool), MISMATCH)
        assert (issue["nodeCount"], issue["nodes"]) == (2, names)
        return bool(issue["since"] == min(hours))

    eventually(kept, what="one issue, since the first of them")
    world.operator.kill()
    world.operator.start()
    world.kubectl("cordon", names[0])
    eventually(lambda: world.status(pool)["availableNodes"] == 1, what="a status of the new process")
    assert kept()
    assert "node" not in issues(world.status(pool), MISMATCH)[0]
