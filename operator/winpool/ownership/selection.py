"""Says which pools select a node, and remembers it: a pass of one pool asks no selector of another one.

Anyone who may create pools may write selectors of a thousand values that select every node. Asked in every
pass of every pool for every node, sixty such pools held up all others for minutes (P7). So a selector is
asked about a node when either of them has changed, and by no pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.api.selector import NodeSelector, PodSelector
from winpool.model.node import Node
from winpool.model.pool import Pool


def selects(selector: NodeSelector | PodSelector, labels: Mapping[str, str]) -> bool:
    """Whether ``selector`` selects an object with these labels.

    As in Kubernetes, ``NotIn`` and ``DoesNotExist`` also select an object without the key.
    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#set-based-requirement
    """
    return all(each.is_met_by(labels) for each in selector.requirements)


def is_asked_for(node: Node, *, by: Pool) -> bool:
    """Whether the selector selects the node. ``kubernetes.io/os: windows`` is always implied."""
    return by.spec is not None and _is_selected(node.labels, by.spec.node_selector)


def _is_selected(labels: Mapping[str, str], selector: NodeSelector) -> bool:
    return labels.get(OS_LABEL) == OS_WINDOWS and selects(selector, labels)


@dataclass(slots=True)
class Selections:
    """The UIDs of the pools that select each node. A pool that is being deleted selects none."""

    _selectors: dict[str, NodeSelector] = field(default_factory=dict, init=False)
    _labels: dict[str, Mapping[str, str]] = field(default_factory=dict, init=False)
    """Of each node by its name, as they were when the selectors were asked about it."""
    _found: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _same: dict[frozenset[str], frozenset[str]] = field(default_factory=dict, init=False)
    """One set for all nodes that the same pools select."""

    def of(self, node: Node, pools: Iterable[Pool]) -> frozenset[str]:
        """Return the UIDs of those of ``pools``, which are all, that select ``node``."""
        self._note(pools)
        return self._of(node)

    def of_all(self, nodes: Collection[Node], pools: Iterable[Pool]) -> dict[str, frozenset[str]]:
        """Return the same for ``nodes``, which are all, by their names."""
        self._note(pools)
        return {node.name: self._of(node) for node in nodes}

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        self._found.pop(name, None)
        self._labels.pop(name, None)

    def _of(self, node: Node) -> frozenset[str]:
        labels = self._labels.get(node.name)
        if labels is not node.labels:
            if labels != node.labels:
                selectors = self._selectors.items()
                self._keep(
                    node.name, frozenset([uid for uid, each in selectors if _is_selected(node.labels, each)])
                )
            self._labels[node.name] = node.labels
        return self._found[node.name]

    def _note(self, pools: Iterable[Pool]) -> None:
        """Ask the selectors that have changed about all known nodes."""
        now = {each.uid: each.spec.node_selector for each in pools if each.spec and not each.deleting}
        before, self._selectors = self._selectors, now
        asked = {
            uid: each for uid, each in now.items() if each is not (was := before.get(uid)) and each != was
        }
        if not asked and before.keys() <= now.keys():
            return
        old = asked.keys() | (before.keys() - now.keys())
        self._same.clear()
        joined: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}
        for name, labels in self._labels.items():
            found = self._found[name]
            chosen = frozenset([uid for uid, each in asked.items() if _is_selected(labels, each)])
            both = joined.get((found, chosen))
            if both is None:  # the same pools select most nodes, and there may be hundreds
                both = joined[found, chosen] = (found - old) | chosen
            self._keep(name, both)

    def _keep(self, name: str, uids: frozenset[str]) -> None:
        if len(self._same) > len(self._found):  # a kubelet may change its labels for ever
            self._same.clear()
        self._found[name] = self._same.setdefault(uids, uids)
