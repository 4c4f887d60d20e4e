"""The roles for people: what they may do with pools, and nothing else."""

from __future__ import annotations

from typing import Any, Final

import yaml

from harness.documents import ROOT
from winpool.api.keys import LEASE, PREFIX, REQUEST_ANNOTATIONS

Object = dict[str, Any]

ROLES: Final[dict[str, Object]] = {
    each["metadata"]["name"]: each
    for each in yaml.safe_load_all((ROOT / "deploy" / "operator" / "roles-for-people.yaml").read_text())
}
READING: Final = {"get", "list", "watch"}


def test_the_page_on_removal_names_every_role_that_people_may_have_bound() -> None:
    page = (ROOT / "docs" / "uninstall.md").read_text()
    stays = page.partition("## What stays\n")[2].partition("\n## ")[0]
    assert [name for name in ROLES if f"`{name}`" not in stays] == []


def writable(role: str) -> set[tuple[str, str]]:
    """Return the groups and resources that a role may change."""
    return {
        (group, resource)
        for rule in ROLES[role]["rules"]
        if not set(rule["verbs"]) <= READING
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_who_edits_pools_writes_nothing_but_pools() -> None:
    assert writable("winpool-editor") == {("winpool.dev", "windowsnodepools")}


def test_who_views_pools_writes_nothing() -> None:
    assert writable("winpool-viewer") == set()


def test_no_role_but_view_gets_rights_on_pools_by_itself() -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    joined = {
        (name, key.removeprefix(prefix))
        for name, role in ROLES.items()
        for key in role["metadata"]["labels"]
        if key.startswith(prefix)
    }
    assert joined == {("winpool-viewer", "view")}


def test_an_agent_with_the_role_for_agents_may_make_every_request() -> None:
    """The guard asks for this right by the name of the annotation."""
    [rule] = ROLES["winpool-node-requester"]["rules"]
    assert rule["resourceNames"] == [key.removeprefix(PREFIX) for key in REQUEST_ANNOTATIONS]


def reads_of_leases(role: str) -> list[tuple[object, object]]:
    """Return which Leases a role may read, by name, and how."""
    return [
        (rule.get("resourceNames"), rule["verbs"])
        for rule in ROLES[role]["rules"]
        if rule.get("apiGroups") == ["coordination.k8s.io"] and rule.get("resources") == ["leases"]
    ]


def test_who_views_pools_may_read_the_lease_of_the_operator_by_name() -> None:
    """Else `kubectl winpool why` says yes to no upgrade: it would not know whether an operator leads."""
    assert reads_of_leases("winpool-viewer") == [([LEASE], ["get"])]


def test_the_account_of_the_example_for_rancher_may_read_the_lease_too() -> None:
    plan = ROOT / "docs" / "upgrades" / "examples" / "plan.yaml"
    [bound] = [
        each["roleRef"]["name"]
        for each in yaml.safe_load_all(plan.read_text())
        if each["kind"] == "ClusterRoleBinding"
    ]
    assert reads_of_leases(bound) == [([LEASE], ["get"])]
