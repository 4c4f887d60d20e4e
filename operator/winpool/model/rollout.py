"""Keeps what a rollout reads from the API server beside nodes and their pods.

These are the controllers that make lost pods again, the volumes that are attached to nodes, and the
PodDisruptionBudgets. They are read only while a pool asks for them (P2).
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from winpool.model.budgets import BudgetIndex
from winpool.model.pods import Pod

MARK_LETTERS: Final = 7
"""Of a mark: 42 bits. With 80 controllers in a claim and 50,000 in the cluster, one claim in a million has a
mark that two of them share."""


def mark_of(uid: str) -> str:
    """Return the short hash of a UID by which a claim remembers a controller."""
    digest = hashlib.sha256(uid.encode(errors="replace")).digest()
    return urlsafe_b64encode(digest)[:MARK_LETTERS].decode()


def title_of(kind: str, name: str) -> str:
    """Return what people call the object ``name``, "namespace/name", such as "Deployment shop/web"."""
    return f"{kind} {name}"


class Controller(msgspec.Struct, frozen=True):
    """A controller that makes lost pods again. ``name`` is "namespace/name".

    ``owner_uid`` is what controls it, as a Deployment does a ReplicaSet; empty where nothing does. ``wanted``
    is how many pods it is to have now, ``ready`` how many are Ready and not terminating. ``is_paused``: it
    does not act now.

    What a HorizontalPodAutoscaler wants is in ``wanted``: it writes that to its target before it writes its
    own status (``reconcileAutoscaler`` in k8s.io/kubernetes, pkg/controller/podautoscaler).
    """

    kind: str
    name: str
    uid: str
    owner_uid: str = ""
    wanted: int = 0
    ready: int = 0
    is_paused: bool = False

    @property
    def title(self) -> str:
        """What people call it."""
        return title_of(self.kind, self.name)


class Workloads(msgspec.Struct, frozen=True):
    """The controllers of the cluster, from lists that all began after ``started``.

    ``began`` is the same moment by the monotonic clock, in seconds. ``controllers`` are by the mark of their
    UID, ``marks`` has these by title. ``left_out`` are the namespaces with so many controllers that none of
    them is here. Those that are being deleted are not here, nor ReplicaSets without pods that want none.
    """

    started: datetime
    began: float
    controllers: Mapping[str, Controller] = msgspec.field(default_factory=dict)
    marks: Mapping[str, str] = msgspec.field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def of(self, pod: Pod) -> Controller | None:
        """Return what makes ``pod`` again if it is lost; None where that is of no kind that is listed.

        Of a pod of a ReplicaSet it is the Deployment: a rollout of the Deployment replaces the ReplicaSet.
        """
        mark = self.marks.get(title_of(pod.controller_kind, f"{pod.namespace}/{pod.controller}"))
        found = self.controllers.get(mark) if mark else None
        if found is None or not found.owner_uid:
            return found
        return self.controllers.get(mark_of(found.owner_uid), found)


class Attachments(msgspec.Struct, frozen=True):
    """The volumes that are attached to nodes, or are being attached or detached, from one list.

    ``volumes`` has the names of the PersistentVolumes, in order, by the name of the node; the name of the
    VolumeAttachment where that names no PersistentVolume. ``began`` is ``started`` by the monotonic clock.
    A volume is detached once it is gone from here: ``status.attached`` may be false before
    (https://github.com/kubernetes-csi/external-attacher/issues/215).
    """

    started: datetime
    began: float
    volumes: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class KnownRollout(msgspec.Struct, frozen=True):
    """What is known beside nodes and their pods; None for what no pool asks for, or is not read yet.

    ``budgets`` are those of a watch, as they are now; None while the watch is not in step. ``problems`` are
    why the last reads failed, sentences for people; ``forbidden`` are those among them that name a right that
    is missing.
    """

    workloads: Workloads | None = None
    attachments: Attachments | None = None
    budgets: BudgetIndex | None = None
    problems: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


NOTHING_READ: Final = KnownRollout()


FORCE_WAITS_SECONDS: Final = 600
"""How long no pod is deleted by force after a start of the operator, or after a pause or a hold ends. What
the pods waited for was not followed meanwhile, and who has ended a hold has time to set it again. As long as
the shortest drain that is forced (``api.upgrade``)."""


class ForceTerms(msgspec.Struct, frozen=True):
    """Whether pods may be deleted that could not be evicted in time (``onTimeout: Force``).

    ``is_allowed``: by the settings of the operator. ``acts_since`` is since when this process acts on the
    pool without a pause; None where it does not. ``freed`` is when it saw the holds of nodes end, by their
    UIDs. ``forbidden`` names the right that is missing, empty where none is known to be.
    """

    is_allowed: bool = False
    acts_since: datetime | None = None
    freed: Mapping[str, datetime] = msgspec.field(default_factory=dict)
    forbidden: str = ""

    def begins_on(self, node_uid: str) -> datetime | None:
        """Return from when on pods of that node may be deleted; None for never, as it is now."""
        if not self.is_allowed or self.acts_since is None:
            return None
        since = max(self.acts_since, self.freed.get(node_uid, self.acts_since))
        return since + timedelta(seconds=FORCE_WAITS_SECONDS)


NO_FORCE: Final = ForceTerms()
