"""Pools, as the API server last reported them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.api.v1alpha1 import WindowsNodePoolSpec, WindowsNodePoolStatus

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pool:
    """A WindowsNodePool as the API server last reported it.

    ``spec`` is None where the operator cannot read it, and ``refusal`` then says why, for people.
    ``status`` is what stands on the object, and ``written_status`` the same as it was written: they
    are continued and compared, and trusted for one thing about nodes: ``set_keys``. Where it cannot be read,
    ``status_problem`` says why and ``status`` is empty, but that is not what stands there: nothing that goes
    by the status is done until it has been written anew.
    """

    name: str
    uid: str
    resource_version: str
    generation: int
    created: datetime | None
    deleting: bool
    finalizers: tuple[str, ...]
    spec: WindowsNodePoolSpec | None
    refusal: str
    status: WindowsNodePoolStatus
    written_status: Mapping[str, Any]
    status_problem: str = ""

    @property
    def seniority(self) -> tuple[datetime, str]:
        """What orders pools that ask for the same free node: age, then name."""
        return (self.created or _NEVER, self.name)
