"""What this process has seen of machines: what surprised it, and when the label of an upgrade changed.

Nothing of it is in the cluster: a node does not show what was there before a reboot. So a process knows only
what has happened while it ran. An operator that waits to lead sees the same as the one that leads.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.objects.upgrades import LABELLED_SECONDS, SURPRISE_SECONDS
from winpool.upgrade.surprises import surprise_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Protocol

    from winpool.objects.node import Node
    from winpool.objects.upgrades import Surprise, SurpriseKind

    class SurpriseOf(Protocol):
        """The rule: what has happened between two states of a node."""

        def __call__(self, before: Node, after: Node, *, now: datetime) -> Surprise | None:
            """Return what has happened; None for nothing that surprises."""


log = logging.getLogger(__name__)

GONE_KEPT: Final = 1024
"""Nodes that are remembered after they are gone, some kB each. A machine that is installed again joins under
the name that it had; where more nodes than that are deleted, only the last are compared."""

GONE_SECONDS: Final = 3600.0
"""How long they are remembered: to install Windows takes less. Later the name may be that of any machine."""


class SeenMachines:
    """Gets every change of a node. What it keeps is about nodes that exist, and a few that are gone."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        rule: SurpriseOf = surprise_of,
    ) -> None:
        self._now = now
        self._monotonic = monotonic
        self._rule = rule
        self._gone: OrderedDict[str, tuple[Node, float]] = OrderedDict()
        self._surprises: dict[str, dict[SurpriseKind, Surprise]] = {}
        """By the UIDs of nodes: of each kind the last."""
        self._labelled: dict[str, datetime] = {}
        """By the UIDs of nodes, the one that changed last at the end."""
        self._is_faulty = False

    def note(self, old: Node | None, new: Node | None) -> None:
        """Note a change. None: the node did not exist before, or is gone."""
        if new is None:
            if old is not None:
                self._forget(old)
            return
        self._note_surprise(self._before(new) if old is None else old, new)
        if old is not None and _state(old) != _state(new):
            self._labelled.pop(new.uid, None)
            self._labelled[new.uid] = self._now()
            self._forget_labels()

    def surprises(self) -> tuple[Surprise, ...]:
        """Return those of the last SURPRISE_SECONDS, the newest first."""
        now, least = self._now(), timedelta(seconds=SURPRISE_SECONDS)
        for uid, kinds in tuple(self._surprises.items()):
            kept = {kind: each for kind, each in kinds.items() if now - each.at < least}
            if kept:
                self._surprises[uid] = kept
            else:
                del self._surprises[uid]
        found = [each for kinds in self._surprises.values() for each in kinds.values()]
        return tuple(sorted(sorted(found, key=_name_of), key=_time_of, reverse=True))

    def labelled_at(self) -> Mapping[str, datetime]:
        """Return when labels changed in the last LABELLED_SECONDS, by the UIDs of nodes.

        None of these is in the future, also where a clock was set back.
        """
        self._forget_labels()
        now = self._now()
        return {uid: min(at, now) for uid, at in self._labelled.items()}

    def _note_surprise(self, before: Node, after: Node) -> None:
        try:
            found = self._rule(before, after, now=self._now())
        except Exception as error:
            # A bug of ours must not end the watch of all nodes.
            if not self._is_faulty:
                self._is_faulty = True
                said = "winpool cannot say whether a machine restarted (%s: %s); this is a bug of winpool"
                log.error(said, type(error).__name__, error)  # noqa: TRY400 - the traceback is at debug
            log.debug("node %s: the rule of surprises failed", after.name, exc_info=True)
            return
        if found is not None:
            known = self._surprises.setdefault(after.uid, {})
            # A kubelet that reports another boot ID every second must not fill the log.
            level = logging.DEBUG if found.kind in known else logging.INFO
            log.log(level, "node %s: %s No one had announced it.", after.name, found.said)
            known[found.kind] = found

    def _before(self, new: Node) -> Node:
        """Return the last state of a node of this name that is gone; ``new`` itself where there is none."""
        gone, since = self._gone.pop(new.name, (new, self._monotonic()))
        return gone if self._monotonic() - since <= GONE_SECONDS else new

    def _forget(self, node: Node) -> None:
        self._surprises.pop(node.uid, None)
        self._labelled.pop(node.uid, None)
        self._gone.pop(node.name, None)
        now = self._monotonic()
        self._gone[node.name] = (_without_texts(node), now)
        while len(self._gone) > GONE_KEPT or next(iter(self._gone.values()))[1] < now - GONE_SECONDS:
            self._gone.popitem(last=False)

    def _forget_labels(self) -> None:
        oldest = self._now() - timedelta(seconds=LABELLED_SECONDS)
        while self._labelled and next(iter(self._labelled.values())) < oldest:
            del self._labelled[next(iter(self._labelled))]


def _state(node: Node) -> str | None:
    return node.labels.get(UPGRADE_STATE_LABEL)


def _without_texts(node: Node) -> Node:
    """Return what matters of a node that is gone: of its annotations, which may be long, only the keys."""
    return replace(node, annotations=dict.fromkeys(node.annotations, ""), conditions=())


def _name_of(each: Surprise) -> tuple[str, str]:
    return each.node, each.kind


def _time_of(each: Surprise) -> datetime:
    return each.at
