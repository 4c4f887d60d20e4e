"""Pools, as the API server last reported them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from winpool.api.v1alpha1 import InvalidSpecError, ObjectMeta, WindowsNodePool, status_and_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.api.v1alpha1 import WindowsNodePoolSpec, WindowsNodePoolStatus

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pool:
    """A WindowsNodePool as the API server last reported it.

    ``spec`` is None where the operator cannot read it, and ``refusal`` then says why.
    ``status`` is the status of the object, and ``written_status`` the same as it was written: they
    are continued and compared, and only their ``set_keys`` is trusted for nodes. Where the status cannot be
    read, ``status_problem`` says why and ``status`` is empty, unlike the object's: the operator does nothing
    that depends on the status until it has been written again.
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
        """The order of pools that select the same node without an owner: age, then name."""
        return (self.created or _NEVER, self.name)


def read_pool(body: Mapping[str, Any]) -> Pool:
    """Make a Pool of the object as the API server gives it.

    A spec that cannot be read (a CRD older or newer than this operator may permit one) is not an
    error here: it becomes a pool with a refusal, which is reported; the operator does nothing else with it.
    Raises InvalidSpecError where even its metadata cannot be read.
    """
    metadata = ObjectMeta.from_object(body)
    spec, refusal = None, ""
    try:
        spec = WindowsNodePool.from_object(body).spec
    except InvalidSpecError as error:
        refusal = str(error)
    status, status_problem = status_and_problem(body)
    return Pool(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        created=metadata.creation_timestamp,
        deleting=metadata.deletion_timestamp is not None,
        finalizers=metadata.finalizers,
        spec=spec,
        refusal=refusal,
        status=status,
        status_problem=status_problem,
        written_status=body.get("status", {}),
    )
