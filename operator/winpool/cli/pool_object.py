"""The pool that a manifest would make, and the pools of the cluster with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from winpool.api.v1alpha1 import WindowsNodePoolSpec, WindowsNodePoolStatus
from winpool.cli.manifests import without_nulls
from winpool.model.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOT_APPLIED: Final = "not applied: "
"""Begins the UID of a pool that is not in the cluster. No UID has a space, so no record names it."""


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
