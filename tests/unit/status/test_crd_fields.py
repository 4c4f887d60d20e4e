"""What a pool says of a CRD that is older than the operator."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_snapshot, deleted, with_status
from winpool.api.crd import FieldPath
from winpool.api.status import Issue
from winpool.decide import decide
from winpool.model.pool import Pool

LACKING = (("spec", "labels"), ("spec", "taints"), ("status", "issues", "[]", "fix"), ("status", "plan"))


def said(pool: Pool, lacking: tuple[FieldPath, ...]) -> list[Issue]:
    decision = decide(replace(a_snapshot(pool, [a_node()]), lacking_fields=lacking))
    return [issue for issue in decision.status.issues if issue.reason == "CRDOutdated"]


def test_one_issue_names_all_fields_of_spec_and_status_and_says_what_to_do() -> None:
    [issue] = said(a_pool(), LACKING)
    assert issue.message.endswith("It lacks spec.labels, spec.taints, status.issues[].fix, status.plan.")
    assert "kubectl apply -f crds.yaml" in issue.fix
    assert (issue.node_count, issue.nodes) == (0, ())


def test_a_crd_of_this_version_is_not_spoken_of_and_the_issue_goes_with_it() -> None:
    assert said(a_pool(), ()) == []
    outdated = decide(replace(a_snapshot(a_pool(), [a_node()]), lacking_fields=LACKING)).status
    assert said(with_status(a_pool(), outdated), ()) == []


@pytest.mark.parametrize(
    ("lacking", "waits"), [(LACKING, False), ((*LACKING, ("status", "setKeys")), True)], ids=["no", "yes"]
)
def test_it_says_that_nodes_wait_only_where_the_status_cannot_remember_keys(
    lacking: tuple[FieldPath, ...], waits: bool
) -> None:
    [issue] = said(a_pool(), lacking)
    assert ("no new labels and taints until then" in issue.message) is waits


def test_a_pool_that_is_being_deleted_does_not_say_it() -> None:
    assert said(deleted(a_pool()), LACKING) == []
