"""What the nodes and the pool of a corner look like, in a form that is the same in all corners."""

from __future__ import annotations

import json
from typing import Any, Final

from cluster.memory_pods import SCENE
from cluster.memory_scene import signal_of
from crash.corner import Corner
from crash.sight import View
from crash.texts import as_text
from harness.nodes import annotations_of, carried
from winpool.api.keys import MEMORY_ANNOTATION, OS_REVISION_LABEL

Object = dict[str, Any]

NOTHING: Final[Object] = {"changed": {}, "taints": [], "intents": 0, "condition": ""}
"""What a node has of ours without a pool."""
_OF_THE_MOMENT: Final = frozenset({"lastTransitionTime", "since", "message", "memoryCapabilities"})
"""The words of conditions and issues have figures of the moment; their reasons say which they are. What the
sources can tell is counted once an hour: before a node is hot, or after where an operator started then."""
_OF_THE_MACHINE: Final = frozenset({OS_REVISION_LABEL, "minRevision", "maxRevision"})


class Ends:
    """Reads views of a corner. Its two nodes carry nothing of ours in the view ``bare``."""

    def __init__(self, corner: Corner, *, bare: View) -> None:
        self._corner = corner
        self._bare = {name: carried(bare.nodes[name]) for name in corner.nodes}

    def is_evicted(self, view: View, *, scene: str) -> bool:
        """Whether both nodes have had their eviction, the second one is well, and the pool tells so."""
        first, second = (view.nodes[name] for name in self._corner.nodes)
        status = view.pools[self._corner.pool_name].get("status", {})
        said = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return (
            (signal_of(first), signal_of(second)) == (("True", True), ("False", False))
            and all(MEMORY_ANNOTATION in annotations_of(each) for each in (first, second))
            and self._running(view, scene) == [3, 2]
            and (status.get("pressuredNodes"), said.get("Reconciling")) == (1, "False")
        )

    def is_bare(self, view: View) -> bool:
        """Whether there is no pool, and nothing of it on the nodes."""
        return self._corner.pool_name not in view.pools and self._nodes(view) == dict.fromkeys(
            self._corner.nodes, NOTHING
        )

    def told(self, view: View, *, scene: str) -> str:
        """Return what nodes and pool look like, without what no two rounds have in common."""
        pool = view.pools.get(self._corner.pool_name, {"metadata": {}})
        about = pool["metadata"]
        state = {
            "nodes": self._nodes(view),
            "running": self._running(view, scene),
            "pool": {"finalizers": about.get("finalizers", []), "status": pool.get("status", {})},
        }
        first, second = self._corner.nodes
        named = {
            about.get("uid", "no pool"): "POOL-UID",
            self._corner.pool_name: "POOL",
            first: "FIRST",
            second: "SECOND",
            self._corner.key: "CORNER",
        }
        found = as_text(state, without=_OF_THE_MOMENT | _OF_THE_MACHINE)
        for name, stands_for in named.items():
            found = found.replace(name, stands_for)
        return found

    def _nodes(self, view: View) -> Object:
        return {name: added(view.nodes[name], before=bare) for name, bare in self._bare.items()}

    def _running(self, view: View, scene: str) -> list[int]:
        return [
            sum(
                each["spec"].get("nodeName") == node
                and each["status"].get("phase") == "Running"
                and "deletionTimestamp" not in each["metadata"]
                for each in pods_of(view, scene)
            )
            for node in self._corner.nodes
        ]


def pods_of(view: View, scene: str) -> list[Object]:
    """Return the pods of one round."""
    return [each for each in view.pods.values() if each["metadata"]["labels"].get(SCENE) == scene]


def added(node: Object, *, before: Object) -> Object:
    """Return what is otherwise on a node than before: of its intents how many there are, not their pods."""
    now, (condition, _) = carried(node), signal_of(node)
    intents = now["annotations"].pop(MEMORY_ANNOTATION, None)
    taints = now.pop("taints")
    return {
        "changed": {
            part: _changes(value, before[part]) for part, value in now.items() if value != before[part]
        },
        "taints": [each for each in taints if each not in before["taints"]],
        "intents": 0 if intents is None else len(json.loads(intents)["evictions"]),
        "condition": condition,
    }


def _changes(now: Any, before: Any) -> Any:
    if not isinstance(now, dict):
        return now
    gone = dict.fromkeys(before.keys() - now, "GONE")
    return {key: each for key, each in now.items() if before.get(key) != each} | gone
