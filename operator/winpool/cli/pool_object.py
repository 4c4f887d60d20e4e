"""A pool as rules want it, made of the object that the API server or a manifest has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from winpool.api.problems import InvalidSpecError
from winpool.api.v1alpha1 import (
    ObjectMeta,
    WindowsNodePool,
    WindowsNodePoolSpec,
    WindowsNodePoolStatus,
    status_and_problem,
)
from winpool.cli.structural import without_nulls
from winpool.objects.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOT_APPLIED: Final = "not applied: "
"""Begins the UID of a pool that is not in the cluster. No UID has a space, so no record names it."""


def pool_of(content: Mapping[str, Any]) -> Pool:
    """Return the pool that the API server sent. A spec that cannot be read becomes a refusal.

    Raises InvalidSpecError where even its metadata cannot be read.
    """
    metadata = ObjectMeta.from_object(content)
    spec, refusal = None, ""
    try:
        spec = WindowsNodePool.from_object(content).spec
    except InvalidSpecError as error:
        refusal = str(error)
    status, status_problem = status_and_problem(content)
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
        written_status=content.get("status") or {},
        status_problem=status_problem,
    )


def planned_pool(manifest: Mapping[str, Any], pools: Iterable[Pool]) -> Pool:
    """Return the pool that there would be after ``kubectl apply`` of ``manifest``, a valid one.

    The pool of that name gets the spec of the manifest, as its next generation where that differs. A pool
    that the cluster does not have is younger than all others.
    """
    spec = WindowsNodePoolSpec.model_validate(without_nulls(manifest["spec"]))
    metadata = manifest["metadata"]
    name = str(metadata.get("name") or metadata.get("generateName"))
    before = next((each for each in pools if each.name == name), None)
    if before is not None:
        is_same = before.spec == spec
        return replace(before, spec=spec, refusal="", generation=before.generation + (not is_same))
    return Pool(
        name=name,
        uid=f"{_NOT_APPLIED}{name}",
        resource_version="",
        generation=1,
        created=None,
        deleting=False,
        finalizers=(),
        spec=spec,
        refusal="",
        status=WindowsNodePoolStatus(),
        written_status={},
    )


def with_pool(pools: Iterable[Pool], planned: Pool) -> tuple[Pool, ...]:
    """Return ``pools`` with ``planned`` in the place of the one of that name, in the order of names."""
    others = [each for each in pools if each.name != planned.name]
    return tuple(sorted((*others, planned), key=lambda each: each.name))
