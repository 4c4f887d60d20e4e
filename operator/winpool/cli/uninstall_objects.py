"""Objects as the API server sends them, read for a plan: what is of another type counts as absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from winpool.api.keys import RELEASE_FINALIZER
from winpool.cli.lenient import count, items, mapping, moment, text
from winpool.cli.uninstall_facts import DeploymentFact, LeaseFact, PoolFact
from winpool.model.node import Keys

if TYPE_CHECKING:
    from collections.abc import Mapping


def pool_fact(pool: Mapping[str, Any]) -> PoolFact:
    """Read a pool."""
    metadata, spec = mapping(pool.get("metadata")), mapping(pool.get("spec"))
    finalizers = [text(each) for each in items(metadata.get("finalizers"))]
    return PoolFact(
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        mode=text(spec.get("mode")) or "Active",
        deleting=metadata.get("deletionTimestamp") is not None,
        has_finalizer=RELEASE_FINALIZER in finalizers,
        other_finalizers=tuple(each for each in finalizers if each != RELEASE_FINALIZER),
        keys=_asked(spec) | _remembered(mapping(mapping(pool.get("status")).get("setKeys"))),
    )


def _asked(spec: Mapping[str, Any]) -> Keys:
    taints = [mapping(each) for each in (*items(spec.get("taints")), *items(spec.get("startupTaints")))]
    return Keys(
        frozenset(mapping(spec.get("labels"))),
        frozenset((text(each.get("key")), text(each.get("effect"))) for each in taints),
    )


def _remembered(keys: Mapping[str, Any]) -> Keys:
    taints = (text(each).rpartition(":") for each in items(keys.get("taints")))
    return Keys(
        frozenset(text(each) for each in items(keys.get("labels"))),
        frozenset((key, effect) for key, _, effect in taints),
    )


def deployment_fact(found: Mapping[str, Any]) -> DeploymentFact:
    """Read a Deployment."""
    return DeploymentFact(
        name=text(mapping(found.get("metadata")).get("name")),
        replicas=count(mapping(found.get("spec")).get("replicas")),
        ready=count(mapping(found.get("status")).get("readyReplicas")),
    )


def lease_fact(found: Mapping[str, Any]) -> LeaseFact:
    """Read a Lease."""
    spec = mapping(found.get("spec"))
    return LeaseFact(
        name=text(mapping(found.get("metadata")).get("name")),
        holder=text(spec.get("holderIdentity")),
        renewed=moment(spec.get("renewTime")),
        seconds=count(spec.get("leaseDurationSeconds")),
    )
