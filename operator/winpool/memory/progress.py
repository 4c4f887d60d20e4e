"""The progress of an intended eviction, by the pods of the node and by the answers to this process.

::

    Intended ─► Evicting ─► Settling ─► Gone
        │           └─► Stuck, at the deadline
        ├─► Refused, by a PodDisruptionBudget
        └─► Expired, at the deadline

The pods show what an earlier process has done (P8). Without a list of them that is young enough nothing is
concluded (P4).
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.memory.settings import SETTLE_SECONDS
from winpool.pods.evicted import Answer

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.memory.intents import Intent
    from winpool.pods.evicted import Answered
    from winpool.pods.node_pods import NodePod, NodePods


class Progress(Enum):
    """How far an intent is."""

    UNKNOWN = "unknown"
    """The pods of the node have to be listed."""
    INTENDED = "intended"
    """The pod is there and is not being deleted."""
    EVICTING = "evicting"
    """The pod is being deleted."""
    SETTLING = "settling"
    """The pod is gone, and its memory has not had the time to come back."""
    GONE = "gone"
    STUCK = "stuck"
    """The pod is still being deleted after the deadline."""
    REFUSED = "refused"
    """It was not evicted, since a budget does not permit it."""
    EXPIRED = "expired"
    """It was not evicted before the deadline."""


UNFINISHED: Final = frozenset({Progress.INTENDED, Progress.EVICTING, Progress.SETTLING})
"""Those that count for ``maxNodes``, and UNKNOWN before the deadline."""
MAY_BE_UNDER_WAY: Final = (Progress.UNKNOWN, Progress.EVICTING, Progress.SETTLING)
"""Those of which nothing keeps the pod from being deleted."""
OVER: Final = frozenset({Progress.REFUSED, Progress.EXPIRED})
"""Those that are removed, since they were no evictions."""
STANDING: Final = frozenset({*UNFINISHED, Progress.UNKNOWN, Progress.STUCK})
"""Those that must not be cleared, however old they are."""


def progress_of(
    intent: Intent, *, pods: NodePods | None, answered: Answered | None, now: datetime, read_at: float
) -> Progress:
    """Return how far ``intent`` is ``now``, which is ``read_at`` on the clock of the answers.

    ``pods`` is the last list of the node's pods.
    """
    answer = None if answered is None else answered.answer
    settle = timedelta(seconds=SETTLE_SECONDS)
    pod = None if pods is None else pods.of(intent.uid)
    if answered is not None and answer is Answer.GONE and not _is_listed_since(pod, pods, answered):
        is_over = read_at - answered.at >= SETTLE_SECONDS or now - intent.until >= settle
        return Progress.GONE if is_over else Progress.SETTLING
    if answer is Answer.REFUSED:
        return Progress.REFUSED
    if pods is None:
        return Progress.EVICTING if answer is Answer.ACCEPTED and now < intent.until else Progress.UNKNOWN
    if pod is None and pods.started < intent.at:
        return Progress.UNKNOWN
    if pod is None or pod.is_finished:
        return Progress.GONE if now - intent.until >= settle else Progress.SETTLING
    if now >= intent.until and pods.started < intent.until:
        return Progress.UNKNOWN
    is_late = now >= intent.until
    if pod.is_terminating or answer is Answer.ACCEPTED:
        return Progress.STUCK if is_late else Progress.EVICTING
    return Progress.EXPIRED if is_late else Progress.INTENDED


def _is_listed_since(pod: NodePod | None, pods: NodePods | None, answered: Answered) -> bool:
    """Whether a list that is younger than the answer has the pod: then it is not gone.

    The API server has been restored from a backup, or the answer was about something else.
    """
    return pods is not None and pod is not None and not pod.is_finished and pods.began > answered.at
