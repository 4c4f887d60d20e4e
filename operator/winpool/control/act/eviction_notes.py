"""What the answers to an eviction say of its pod, for those who remember them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from winpool.cluster.errors import (
    Conflict,
    DisruptionBudget,
    Forbidden,
    Invalid,
    NotLeading,
    NotWanted,
    TooManyRequests,
    Unauthorized,
    UnconfirmedRefusal,
)

if TYPE_CHECKING:
    from winpool.cluster.errors import ApiError
    from winpool.objects.acts import Eviction

_INTERNAL_ERROR: Final = 500

_OF_ETCD: Final = re.compile(r"\betcdserver: |\brpc error: ")
"""In the message of a 500 that the API server passes on from etcd. A write that timed out there, or met a
change of the leader, may have been carried out."""


class Notes(Protocol):
    """Remembers the answers, see ``control.evicting.answers``."""

    def asked(self, eviction: Eviction) -> None:
        """Note that a request is sent."""
        ...

    def accepted(self, eviction: Eviction) -> None:
        """Note that the pod is being deleted."""
        ...

    def refused(self, eviction: Eviction, said: str) -> None:
        """Note that this pod is not evicted now."""
        ...

    def unheard(self, eviction: Eviction) -> None:
        """Note that the request was not carried out, for a reason that is not of the pod."""
        ...

    def forbidden(self, error: Forbidden) -> None:
        """Note that the operator lacks the right to evict."""
        ...

    def unanswered(self, eviction: Eviction) -> None:
        """Note that it is not known whether the request was or will be carried out."""
        ...

    def unsent(self, eviction: Eviction) -> None:
        """Note that the request was not sent after all."""
        ...

    def gone(self, eviction: Eviction) -> None:
        """Note that there is no such pod."""
        ...


def note_failed(notes: Notes, eviction: Eviction, error: ApiError) -> None:
    """Note an eviction that failed. Without an answer it may still be carried out: it remains asked for.

    A 429 of flow control says nothing about the pod, and neither does a missing permission. A budget whose
    status is invalid answers 403, two budgets answer 500, and so does a webhook that fails. A 500 of etcd
    says as little as no answer.
    """
    is_verdict = (
        isinstance(error, DisruptionBudget | Invalid)
        or (isinstance(error, Forbidden) and error.permission is None)
        or (error.status == _INTERNAL_ERROR and _OF_ETCD.search(error.message) is None)
    )
    if isinstance(error, Forbidden) and error.permission is not None:
        notes.forbidden(error)
    if isinstance(error, NotWanted):
        notes.unsent(eviction)
    elif is_verdict:
        notes.refused(eviction, error.message)
    elif isinstance(
        error, TooManyRequests | Forbidden | UnconfirmedRefusal | Unauthorized | Conflict | NotLeading
    ):
        notes.unheard(eviction)
    else:
        notes.unanswered(eviction)
