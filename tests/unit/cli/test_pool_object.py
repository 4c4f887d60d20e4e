"""The pool of an object, and the picture of a cluster with a manifest in it."""

from __future__ import annotations

import pytest

from harness.builders import A_SPEC, NOON, a_pool
from winpool.api.model import InvalidSpecError
from winpool.cli.upgrades import Cluster, planned_pool
from winpool.model.pool import read_pool

MANIFEST = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "spec": A_SPEC}


def test_what_has_no_readable_metadata_is_no_pool() -> None:
    with pytest.raises(InvalidSpecError):
        read_pool({"metadata": {"name": 7}, "spec": A_SPEC})


def planned(name: str, **spec: object) -> dict[str, object]:
    return {**MANIFEST, "metadata": {"name": name}, "spec": {**A_SPEC, **spec}}


def test_a_manifest_gives_the_pool_of_its_name_another_spec() -> None:
    before = a_pool("a", uid="7", generation=4)
    after = planned_pool(planned("a", labels={"team": "x"}), [a_pool("b"), before])
    assert (after.uid, after.generation, after.created) == ("7", 5, before.created)
    assert after.spec is not None
    assert dict(after.spec.labels) == {"team": "x"}


def test_a_manifest_that_changes_nothing_is_about_the_same_generation() -> None:
    before = a_pool("a", generation=4)
    assert planned_pool(planned("a", mode="Active"), [before]) == before


def test_a_manifest_makes_a_spec_that_could_not_be_read_readable() -> None:
    after = planned_pool(planned("a"), [a_pool("a", refusal="spec.os: must be given.")])
    assert after.refusal == ""
    assert after.spec is not None


def test_new_pools_are_younger_than_all_others_and_have_no_uid_of_a_pool() -> None:
    new = [planned_pool(planned(name), [a_pool("old")]) for name in ("x", "y")]
    assert all(a_pool("old").seniority < each.seniority for each in new)
    assert len({each.uid for each in new}) == 2
    assert all(" " in each.uid for each in new)


def test_a_name_that_the_server_would_make_is_shown_as_far_as_it_is_known() -> None:
    assert planned_pool({**MANIFEST, "metadata": {"generateName": "win-"}}, []).name == "win-"


def test_a_planned_pool_replaces_the_one_of_its_name() -> None:
    cluster = Cluster(pools=(a_pool("b"), a_pool("a")), nodes=(), version="v1.36.3", now=NOON)
    after = planned_pool(planned("b", labels={"team": "x"}), cluster.pools)
    assert [each.name for each in cluster.planned(after).pools] == ["a", "b"]
    assert after in cluster.planned(after).pools
