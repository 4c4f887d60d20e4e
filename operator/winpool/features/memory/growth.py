"""Keeps what the pods of a node had before it was under pressure, and says by how much each has grown since.

An eviction is for a pod that grows (``victims.py``). So pods are listed on calm nodes too, now and then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from winpool.features.memory.settings import EVIDENCE_SECONDS
from winpool.model.pressure import NO_USAGE, PodUsage, UsageSinceCalm

CALM_LIST_SECONDS: Final = 300.0
"""Between two lists of the pods of a calm node, one in five of its polls (P7)."""
REBASE_SECONDS: Final = 3600.0
"""On a node that stays under pressure, growth is that of the last one to two hours: most of what pods
became in weeks is no part of what happens now."""


class PodList(NamedTuple):
    """What pods used ``at`` a time, by their UIDs, and what the node had ``committed``, None if unknown."""

    at: float
    pods: Mapping[str, PodUsage]
    committed: float | None


@dataclass(frozen=True, slots=True)
class PodHistory:
    """The lists of the pods of a node.

    ``bases`` are at most two, the older first, from which growth is counted: the last list of when the node
    was calm, or the first one if it was not calm since the start. ``last`` is the newest.
    """

    bases: tuple[PodList, ...] = ()
    last: PodList | None = None

    def is_due(self, *, now: float) -> bool:
        """Whether the pods of a calm node are to be listed."""
        return self.last is None or now - self.last.at >= CALM_LIST_SECONDS

    def listed(
        self, pods: Mapping[str, PodUsage], *, at: float, is_calm: bool, committed: float | None
    ) -> PodHistory:
        """Return it with a list of the pods that arrived at ``at``, with what the node had committed.

        A number that is missing in a base is that of the list before or after it. A pod that is in neither
        has started since: all that it has is growth.
        """
        last = PodList(at, pods, committed)
        if is_calm or not self.bases:
            before = {} if self.last is None else self.last.pods
            known = {uid: _first(each, before.get(uid, NO_USAGE)) for uid, each in pods.items()}
            return PodHistory((PodList(at, {**before, **known}, committed),), last)
        bases = tuple(_with_next(each, last) for each in self.bases)
        if at - bases[-1].at >= REBASE_SECONDS:
            bases = (bases[-1], last)
        return PodHistory(bases, last)

    def usage(self, *, now: float, committed: float | None) -> UsageSinceCalm | None:
        """Return what each pod uses, and its growth; None where the last list is too old for evidence.

        ``committed`` is what the node has committed now, None where that is unknown.
        """
        if self.last is None or now - self.last.at > EVIDENCE_SECONDS:
            return None
        base = self.bases[0]
        grown = None if committed is None or base.committed is None else committed - base.committed
        return UsageSinceCalm(grown_pods(base.pods, self.last.pods), grown)


NO_PODS: Final = PodHistory()


def _with_next(base: PodList, following: PodList) -> PodList:
    pods = {uid: _first(each, following.pods.get(uid, NO_USAGE)) for uid, each in base.pods.items()}
    return PodList(base.at, pods, following.committed if base.committed is None else base.committed)


def _first(known: PodUsage, other: PodUsage) -> PodUsage:
    """Return what is ``known`` of a pod, with the numbers of ``other`` that it lacks."""
    if known.commit is not None and known.working_set is not None:
        return known
    return PodUsage(
        other.commit if known.commit is None else known.commit,
        other.working_set if known.working_set is None else known.working_set,
    )


def grown_pods(first: Mapping[str, PodUsage], last: Mapping[str, PodUsage]) -> dict[str, PodUsage]:
    """Return the ``last`` list of what pods use, by their UIDs, with the growth since the ``first``.

    A pod that is not in the first one has grown by all that it has.
    """
    return {
        uid: replace(
            each,
            commit_growth=_growth(each.commit, before.commit),
            working_set_growth=_growth(each.working_set, before.working_set),
        )
        for uid, each in last.items()
        for before in (first.get(uid, _NOTHING),)
    }


_NOTHING: Final = PodUsage(0.0, 0.0)


def _growth(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before
