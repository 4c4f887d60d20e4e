"""Keeps the pods of a node under memory pressure, and what is known of evictions that were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from math import inf
from typing import Final

import msgspec

from winpool.model.budgets import UNKNOWN_MOMENT, BudgetRoom
from winpool.model.node import Node
from winpool.model.pods import Pod


class NodePods(msgspec.Struct, frozen=True):
    """All pods of a node that have not ended, from one list, each with its ``EvictionFacts``.

    ``started`` and ``began`` are when the list began, by the wall clock and by the clock of
    ``model.pressure``. ``blocked`` are the UIDs of those of which a PodDisruptionBudget permits no eviction
    now, by budgets that were listed after that; None where none were. ``unread`` are those among them of
    which it is not known, since their budgets are too large or too many. All of it took so many ``seconds``.
    ``budgets`` are, by the UIDs of pods, what the budgets that the API server asks about a pod allow; a pod
    without one is not among them. ``budgets_began`` is when the list of them began: all that ask within a few
    seconds share one, so that it may be older than that of the pods. While budgets are watched they may be
    newer than that.
    """

    started: datetime
    began: float
    pods: tuple[Pod, ...] = ()
    blocked: frozenset[str] | None = None
    unread: frozenset[str] = frozenset()
    seconds: float = 0.0
    budgets: Mapping[str, tuple[BudgetRoom, ...]] = msgspec.field(default_factory=dict)
    budgets_began: float = UNKNOWN_MOMENT

    @property
    def has_budgets(self) -> bool:
        """Whether the PodDisruptionBudgets were listed, too."""
        return self.blocked is not None

    def of(self, uid: str) -> Pod | None:
        """Return the pod with that UID; None where the node has none."""
        return next((each for each in self.pods if each.uid == uid), None)

    def is_young(self, read_at: float, seconds: float) -> bool:
        """Whether the list began at most ``seconds`` before ``read_at``, by the clock of ``began``."""
        return 0 <= read_at - self.began <= seconds


class PodListRequest(msgspec.Struct, frozen=True):
    """A list of the pods of ``node`` that a pass asks for.

    ``watched`` are the UIDs of pods that are, or may be, being evicted there. ``with_budgets``: an eviction
    is next, so that the PodDisruptionBudgets are needed too.
    """

    node: Node
    watched: frozenset[str] = frozenset()
    with_budgets: bool = False

    def merged(self, other: PodListRequest) -> PodListRequest:
        """Return the request for what both ask for, about the same node."""
        both = self.watched | other.watched
        return PodListRequest(self.node, both, with_budgets=self.with_budgets or other.with_budgets)


class Answer(Enum):
    """The last that is known of the eviction of a pod."""

    ASKED = "asked"
    """A request is under way, or had no answer: it may still be carried out."""
    ACCEPTED = "accepted"
    """The pod is being deleted."""
    REFUSED = "refused"
    """A PodDisruptionBudget, or an admission policy, permits it not now."""
    GONE = "gone"
    """There is no pod with this UID any more."""


class Answered(msgspec.Struct, frozen=True):
    """An answer. ``at`` is when it came, on the clock of ``model.pressure``; of GONE, the first time.

    ``said`` is why it was refused last, for people, and ``times`` how often in a row; both remain while it is
    asked for again. ``node_uid`` is the node that the pod is, or was, on; empty where that is not known.
    ``budget`` is that of ``Eviction``. ``asked_at`` is when the request that took from it was answered, where
    a list has shown something newer since.
    """

    answer: Answer
    at: float
    said: str = ""
    node_uid: str = ""
    times: int = 0
    budget: str = ""
    asked_at: float | None = None

    @property
    def taken_at(self) -> float:
        """When something was taken of ``budget``: what was read of budgets before that does not have it."""
        return self.at if self.asked_at is None else self.asked_at

    def is_about(self, node_uid: str) -> bool:
        """Whether it may be about a pod of that node."""
        return self.node_uid in ("", node_uid)


class KnownEvictions(msgspec.Struct, frozen=True):
    """What a pass knows of evictions.

    ``pods`` are the last lists of pods, ``problems`` why the last list failed, both by the UIDs of the nodes.
    ``forbidden`` says which right is missing: to list pods or PodDisruptionBudgets, or to evict pods.
    ``forbidden_until`` is when that ends unless it is refused again; None where nothing is missing.
    ``answers`` are by the UIDs of the pods. ``protected`` are namespaces that the operator's settings
    protect. ``read_at`` is the moment of the snapshot on the clock of ``model.pressure``.
    """

    pods: Mapping[str, NodePods] = msgspec.field(default_factory=dict)
    problems: Mapping[str, str] = msgspec.field(default_factory=dict)
    forbidden: str = ""
    forbidden_until: datetime | None = None
    answers: Mapping[str, Answered] = msgspec.field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    read_at: float = 0.0

    def under_way(self) -> dict[str, set[str]]:
        """Return the UIDs of the pods that are being deleted by requests of this process, by their nodes."""
        found: dict[str, set[str]] = {}
        for uid, each in self.answers.items():
            if each.answer is Answer.ACCEPTED and each.node_uid:
                found.setdefault(each.node_uid, set()).add(uid)
        return found

    def oldest_first(self, looks: Iterable[PodListRequest]) -> tuple[PodListRequest, ...]:
        """Return the requests in the order of the last lists of their nodes, those without one first.

        Of more nodes than may be listed in one pass, none so waits longer than all others.
        """
        pods = self.pods
        return tuple(
            sorted(looks, key=lambda each: pods[each.node.uid].began if each.node.uid in pods else -inf)
        )

    def answer_on(self, node_uid: str, pod_uid: str) -> Answered | None:
        """Return the last answer about a pod, as a pod of that node.

        Who can annotate a node can name any pod on it. That another node does not have the pod says nothing.
        """
        found = self.answers.get(pod_uid)
        return found if found is not None and found.is_about(node_uid) else None


NOTHING_EVICTED: Final = KnownEvictions()
