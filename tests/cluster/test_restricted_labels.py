"""Labels that kubelets may not give themselves, from a pool that a node can join by itself (P3)."""

from __future__ import annotations

from typing import Final

import pytest

from harness.waiting import eventually
from harness.world import RUN_LABEL, World

TRUSTED: Final = "example.node-restriction.kubernetes.io/windows"
"""A label to select by: only a cluster admin puts it on."""
NEVER: Final = "example.node-restriction.kubernetes.io/never"
"""A label that no node has."""


@pytest.mark.parametrize(
    "label", ["node-role.kubernetes.io/batch", "example.node-restriction.kubernetes.io/tenant"]
)
def test_a_pool_that_gives_them_to_whoever_labels_itself_says_so_until_it_selects_otherwise(
    world: World, label: str
) -> None:
    labels = {label: "ours"}
    both = {**world.selector, TRUSTED: world.suffix}
    (name,) = world.fleet(windows=1)
    world.kubectl("label", "node", name, f"{TRUSTED}={world.suffix}")
    pool = world.apply(world.pool(labels=labels))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    eventually(lambda: RUN_LABEL in warning(world, pool), what="the issue, which names what is selected by")

    world.apply(world.pool(nodeSelector={"matchLabels": both}, labels=labels))
    world.wait_up_to_date(pool, nodes=1)
    eventually(lambda: not warning(world, pool), what="no issue any more")

    absent = {"matchLabels": world.selector, "matchExpressions": [{"key": NEVER, "operator": "DoesNotExist"}]}
    # A node without the label is in this pool, and a kubelet need not give itself what is not there.
    world.apply(world.pool(nodeSelector=absent, labels=labels))
    world.wait_up_to_date(pool, nodes=1)
    eventually(lambda: warning(world, pool), what="the issue again")

    world.apply(world.pool(labels={"example.com/harmless": "yes"}))
    world.wait_up_to_date(pool, nodes=1)
    eventually(lambda: not warning(world, pool), what="no issue where no such label is set")


def warning(world: World, pool: str) -> str:
    """Return the text of the issue of the pool about labels to select by; empty where there is none."""
    for issue in world.status(pool).get("issues", []):
        text = f"{issue['message']} {issue['fix']}"
        if not issue["nodeCount"] and "node-restriction.kubernetes.io" in text:
            return text
    return ""
