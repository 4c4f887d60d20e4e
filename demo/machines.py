"""Three nodes of another node pool, whose memory can be watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.cluster import Testbed

COMPONENT = "winsim-batch"
COUNT = 3

_ARGUMENTS = (
    "--prefix=batch",
    "--label=agentpool=batch",
    "--kubelet-port=0",
    "--windows-page-file=8096Mi",
    # So that the operator knows how much each pod has committed. Most kubelets say only what is in RAM.
    "--pod-stats-from-cri",
)


def add_batch_nodes(testbed: Testbed) -> None:
    """Have the nodes that ``deploy/samples/memory-evict.yaml`` selects join; they stay where they are."""
    if all(each.name != COMPONENT for each in testbed.components()):
        testbed.run(COMPONENT, testbed.winsim_command(windows=COUNT, extra=_ARGUMENTS))
