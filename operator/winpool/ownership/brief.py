"""The quick check: whether a node is at its target, for thousands of nodes in a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import POOL_LABEL
from winpool.api.node_keys import OWN_TAINTS, ROOMS_ANNOTATIONS, ROOMS_LABELS
from winpool.ownership.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.objects.node import Node
    from winpool.ownership.goals import Target
    from winpool.ownership.members import Member


class Brief:
    """A target in the form in which thousands of nodes are compared with it."""

    __slots__ = (
        "_annotations",
        "_fit",
        "_fits",
        "_is_as_wanted",
        "_is_plain",
        "_labels",
        "_no_annotations",
        "_no_labels",
        "_no_taints",
        "_taints",
        "target",
    )

    def __init__(
        self,
        target: Target,
        *,
        pool_name: str,
        fits: Callable[[Record], bool],
        is_as_wanted: Callable[[Node, Record], bool],
    ) -> None:
        """Make it; ``fits`` says whether a record fits, ``is_as_wanted`` is the full check."""
        self.target = target
        self._is_plain = target.is_plain
        self._fits = fits
        self._is_as_wanted = is_as_wanted
        # Whether a record fits, by its identity: usually all nodes of a pool share one. The record is kept
        # with the answer. Otherwise another one could get the same identity.
        self._fit: dict[int, tuple[Record, bool]] = {}
        self._labels = {**target.labels, **target.own_labels, POOL_LABEL: pool_name}.items()
        self._no_labels = tuple(key for key in ROOMS_LABELS if key not in target.own_labels)
        self._annotations = {**target.annotations, **target.own_annotations}.items()
        self._no_annotations = tuple(key for key in ROOMS_ANNOTATIONS if key not in target.own_annotations)
        self._taints = {**target.taints, **target.own_taints}.items()
        self._no_taints = tuple(
            each for each in OWN_TAINTS if each not in target.own_taints and each not in target.left_taints
        )

    def is_met_by(self, member: Member) -> bool:
        """Whether there is nothing to do on the node."""
        record = member.record
        if not isinstance(record, Record):
            return False
        if not self._is_plain or record.unschedulable or record.conditions:
            return self._is_as_wanted(member.node, record)
        fit = self._fit.get(id(record))
        if fit is None:
            fit = self._fit[id(record)] = (record, self._fits(record))
        return fit[1] and self._stands_on(member)

    def _stands_on(self, member: Member) -> bool:
        # Views, not any(): a pass does this for every node, and the generators cost more than the comparison.
        labels, annotations, taints = member.node.labels, member.node.annotations, member.taints
        return (
            self._labels <= labels.items()
            and self._annotations <= annotations.items()
            and self._taints <= taints.items()
            and labels.keys().isdisjoint(self._no_labels)
            and annotations.keys().isdisjoint(self._no_annotations)
            and taints.keys().isdisjoint(self._no_taints)
        )
