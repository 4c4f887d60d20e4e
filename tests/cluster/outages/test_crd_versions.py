"""A CRD of another version than the operator: a newer one works, of an older one it is said what it lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.outages.conftest import restore
from harness.waiting import eventually
from harness.world import World
from winpool.api.crd import definition

TEXT = {"type": "string", "maxLength": 63}
"""The schema of a field that an operator of the future has."""

OLDER = {"spec": ("reservedMemory", "validation"), "status": ("misplacedPods", "nodeTemplate")}
LACKING = tuple(f"{part}.{name}" for part, names in OLDER.items() for name in names)
"""What the older CRD of these tests lacks."""


@pytest.fixture
def world(without_crd: World) -> World:
    return without_crd


def fields_of(crd: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the schemas of the fields of ``spec`` or ``status``, to be changed."""
    [version] = crd["spec"]["versions"]
    fields: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"][part]["properties"]
    return fields


def install(world: World, crd: dict[str, Any]) -> None:
    world.kubectl("apply", "-f", "-", stdin=json.dumps(crd))


def test_a_newer_crd_works_and_what_it_adds_is_kept(world: World) -> None:
    crd = json.loads(json.dumps(definition()))
    for part in ("spec", "status"):
        fields_of(crd, part)["future"] = TEXT
    install(world, crd)
    world.fleet(windows=2)
    manifest = world.pool(labels={"example.com/team": "payments"}, future="unknown")
    pool = str(manifest["metadata"]["name"])
    eventually(
        lambda: "created" in world.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False),
        what="the API server knows the new field",
    )
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    assert world.get("wnp", pool)["spec"]["future"] == "unknown"


@pytest.mark.nightly
def test_all_that_an_older_crd_lacks_is_told_until_it_is_replaced_without_a_restart(world: World) -> None:
    crd = json.loads(json.dumps(definition()))
    for part, names in OLDER.items():
        for name in names:
            del fields_of(crd, part)[name]
    install(world, crd)
    world.fleet(windows=2)
    manifest = world.pool(reservedMemory={"systemReserved": "2Gi"})
    eventually(
        lambda: (
            'unknown field "spec.reservedMemory"'
            in world.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False)
        ),
        what="the API server refuses the field by its name",
    )
    world.operator.start()
    pool = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.wait_up_to_date(pool, nodes=2, seconds=120)
    described = " ".join(world.kubectl("describe", "wnp", pool).split())
    assert "CRDOutdated" in described
    assert f"It lacks {', '.join(LACKING)}." in described
    assert world.operator.log_text().count(f"it lacks {', '.join(LACKING)}; ") == 1, "it is said once"
    assert "field not declared in schema" not in world.operator.log_text()
    assert world.operator.metric("winpool_crd_lacking_fields") == len(LACKING)
    assert world.operator.ready(), "the pools are served"
    restore(world)
    eventually(lambda: world.status(pool).keys() >= set(OLDER["status"]), what="the status is whole")
    assert "CRDOutdated" not in world.kubectl("describe", "wnp", pool)
    eventually(
        lambda: world.operator.metric("winpool_crd_lacking_fields") == 0,
        what="a page of metrics that is younger than the status",
    )
    manifest["metadata"]["name"] = pool
    world.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
