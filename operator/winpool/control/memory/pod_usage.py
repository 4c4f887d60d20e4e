"""What the pods of a hot node use, and by how much that has grown: what ranks them for an eviction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.memory.settings import EVIDENCE_SECONDS
from winpool.objects.pressure import PodUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.kubelet.samples import PodMemory

GROWTH_SECONDS: Final = 120.0
"""Growth is that of two minutes: after so long a pod counts as old enough to be evicted."""

SPACING_SECONDS: Final = 30.0
"""The lists that are kept for that are so far apart: five of a node, and not thirteen (P7)."""

_Amounts = tuple[float | None, float | None]
"""Commit and working set of a pod."""


@dataclass(frozen=True, slots=True)
class _Listed:
    at: float
    amounts: Mapping[str, _Amounts]


@dataclass(frozen=True, slots=True)
class PodHistory:
    """The last lists of the pods of a node, the oldest first."""

    lists: tuple[_Listed, ...] = ()

    def usage(self, *, now: float) -> Mapping[str, PodUsage]:
        """Return what each pod uses by its UID; nothing where the last list is older than evidence may be."""
        if not self.lists or now - self.lists[-1].at > EVIDENCE_SECONDS:
            return {}
        last, first = self.lists[-1], self.lists[0]
        spanned = last.at - first.at
        share = GROWTH_SECONDS / spanned if spanned >= SPACING_SECONDS else None
        return {uid: _usage(amounts, first.amounts.get(uid), share) for uid, amounts in last.amounts.items()}


NO_PODS: Final = PodHistory()


def listed(history: PodHistory, pods: tuple[PodMemory, ...], *, at: float) -> PodHistory:
    """Return ``history`` with a list of the pods that arrived at ``at``."""
    amounts = {pod.uid: (_float(pod.committed), _float(pod.working_set)) for pod in pods}
    lists = history.lists
    if len(lists) > 1 and lists[-1].at - lists[-2].at < SPACING_SECONDS:
        lists = lists[:-1]
    return PodHistory((*(each for each in lists if at - each.at <= GROWTH_SECONDS), _Listed(at, amounts)))


def _float(amount: int | None) -> float | None:
    return None if amount is None else float(amount)


def _usage(now: _Amounts, before: _Amounts | None, share: float | None) -> PodUsage:
    commit, working_set = now
    commit_before, working_set_before = before or (None, None)
    return PodUsage(
        commit=commit,
        working_set=working_set,
        commit_growth=_growth(commit, commit_before, share),
        working_set_growth=_growth(working_set, working_set_before, share),
    )


def _growth(now: float | None, before: float | None, share: float | None) -> float | None:
    return None if now is None or before is None or share is None else (now - before) * share
