"""The rights of the operator's account, by its own token: the rows of the table, and nothing else.

All resources of the API server are asked about, with all verbs, and the requests that would do harm are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

import pytest

from cluster.harming import HARMS, MARK, ME
from cluster.rights_ground import (
    EVERYONES_PATHS,
    ROLES,
    TOKEN_SECONDS,
    Ground,
    Rule,
    flat,
    granted,
    standing,
)
from gen.rights import CLUSTER, EVENTS, INSTALLED, Right, rights_of
from harness.identity import Caller
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed

Object = dict[str, Any]
OTHER_PATHS: Final = (
    "/",
    "/configz",
    "/debug/pprof/",
    "/logs/",
    "/metrics",
    "/metrics/slis",
    "/statusz",
    "/flagz",
)

HELD: Final = tuple(right for role in INSTALLED for right in rights_of(role))
"""The rows of an installation whose metrics ask for no token, as the one of these tests."""

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")
"""Those of requests; the last is that of a rule for every verb, also one of a later Kubernetes."""

WITHOUT_REQUESTS: Final = {
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("impersonate", "", "serviceaccounts"),
    ("impersonate", "authentication.k8s.io", "userextras/scopes"),
    ("impersonate", "authentication.k8s.io", "uids"),
    *(
        (verb, "rbac.authorization.k8s.io", roles)
        for verb in ("bind", "escalate")
        for roles in ("roles", "clusterroles")
    ),
    *((verb, "certificates.k8s.io", "signers") for verb in ("approve", "attest", "sign")),
    ("use", "policy", "podsecuritypolicies"),
    *(
        (verb, "", f"nodes/{part}")
        for verb in ("get", "create")
        for part in ("proxy", "stats", "metrics", "log", "spec", "configz", "healthz", "pods", "checkpoint")
    ),
    ("update", "winpool.dev", "nodeannotations"),
    ("evict", "winpool.dev", "systempods"),
}
"""Verb, group and resource of rights that are about no request of their own to the API server."""

MAY_BE_ABSENT: Final = {("patch", "events")}
"""What a short life of a pool need not ask for: the same event again, half a minute after the first.
``tests/unit/test_rights.py`` finds the request in the code."""


@pytest.fixture(scope="module")
def ground(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    token = testbed.mint_token(lifetime_seconds=TOKEN_SECONDS)
    with standing(testbed, directory=tmp_path_factory.mktemp("rbac"), token=token) as found:
        yield found


def verbs_of(rights: Iterable[Right]) -> set[tuple[str, str]]:
    return {(verb, resource) for verb, _, resource, _ in granted(rights)}


def rights_in(namespace: str) -> set[Rule]:
    """Return what the table gives in a namespace; what is for the whole cluster is for each of them."""
    return granted(each for each in HELD if each.role.namespace in ("", namespace))


def discovered(admin: Caller) -> dict[tuple[str, str], bool]:
    """Return every resource that the API server has, with its subresources: whether it is namespaced."""

    def got(path: str) -> Object:
        status, found = admin.ask("GET", path)
        assert status == HTTPStatus.OK, found
        return found

    versions = [("", "/api/v1")]
    for group in got("/apis")["groups"]:
        versions += [(group["name"], f"/apis/{each['groupVersion']}") for each in group["versions"]]
    return {
        (group, each["name"]): each["namespaced"]
        for group, path in versions
        for each in got(path)["resources"]
    }


NAMESPACES: Final = sorted({each.role.namespace for each in HELD if each.role.namespace} | {"kube-system"})


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_rules_that_the_api_server_knows_are_the_rows_of_the_table(
    ground: Ground, namespace: str
) -> None:
    def as_the_table_says() -> bool:
        # Another test may have taken back rights a moment ago.
        found = ground.rules(namespace)
        assert found["incomplete"] is False
        assert flat(found["resourceRules"]) == rights_in(namespace) | ground.everyones
        paths = {path for rule in found["nonResourceRules"] for path in rule["nonResourceURLs"]}
        assert paths == EVERYONES_PATHS
        assert {verb for rule in found["nonResourceRules"] for verb in rule["verbs"]} == {"get"}
        return True

    eventually(as_the_table_says, what="the rights of the table")


@pytest.mark.nightly
def test_no_verb_on_any_resource_is_allowed_that_has_no_row(ground: Ground) -> None:
    """Asked without the name of an object: what is for one name only is in the rules above.

    A right in all namespaces would show in the one where the operator has no Role.
    """
    resources = discovered(ground.admin)
    assert {("", "pods/exec"), ("", "pods/eviction"), ("", "serviceaccounts/token")} <= resources.keys()
    assert ("certificates.k8s.io", "certificatesigningrequests/approval") in resources
    rules = {*((verb, *resource) for resource in resources for verb in VERBS), *WITHOUT_REQUESTS}
    unnamed = {
        namespace: {rule[:3] for rule in rights_in(namespace) | ground.everyones if not rule[3]}
        for namespace in ("", *NAMESPACES)
    }
    allowed, expected = set(), set()
    for verb, group, resource in sorted(rules):
        for namespace in NAMESPACES if resources.get((group, resource)) else ("",):
            if (verb, group, resource) in unnamed[namespace]:
                expected.add((verb, group, resource, namespace))
            if ground.may(verb, group, resource, namespace=namespace):
                allowed.add((verb, group, resource, namespace))
    assert expected
    assert allowed == expected


@pytest.mark.parametrize(
    "right",
    [each for each in HELD if each.names],
    ids=lambda right: f"{right.verbs[0]} {right.resources[0]}",
)
def test_a_right_to_one_object_is_for_no_other(ground: Ground, right: Right) -> None:
    for verb, group, resource, name in granted([right]):
        answers = {
            asked: ground.may(verb, group, resource, name=asked, namespace=right.role.namespace)
            for asked in (name, f"{name}-2", "")
        }
        assert answers == {name: True, f"{name}-2": False, "": False}, (verb, resource)


def test_no_other_path_may_be_read(ground: Ground) -> None:
    readable = {path for path in (*EVERYONES_PATHS, *OTHER_PATHS) if ground.may_read(path)}
    assert readable == EVERYONES_PATHS


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_request_is_refused_and_changes_nothing(ground: Ground, harm: str) -> None:
    request = HARMS[harm]
    before = [ground.look(path) for path in request.targets]
    status, said = ground.send(request)
    assert status == HTTPStatus.FORBIDDEN, said
    assert said["reason"] == "Forbidden"
    assert [ground.look(path) for path in request.targets] == before


def test_a_right_beyond_the_table_is_found(ground: Ground) -> None:
    """Or the tests above would say nothing."""
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": ground.place}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ground.place}
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    bindings = ROLES.replace("clusterroles", "clusterrolebindings")
    secret = HARMS["read a Secret"]
    ground.admin.ask("POST", ROLES, {**about, "kind": "ClusterRole", "rules": [rule]})
    ground.admin.ask(
        "POST", bindings, {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [ME]}
    )
    try:
        eventually(lambda: ground.send(secret)[0] == HTTPStatus.OK, what="one right more")
        assert ground.may("get", "", "secrets", namespace="kube-system")
        beyond = flat(ground.rules("kube-system")["resourceRules"]) - rights_in("kube-system")
        assert beyond - ground.everyones == {("get", "", "secrets", "")}
    finally:
        ground.admin.ask("DELETE", f"{bindings}/{ground.place}")
        ground.admin.ask("DELETE", f"{ROLES}/{ground.place}")
    eventually(lambda: ground.send(secret)[0] == HTTPStatus.FORBIDDEN, what="that right taken back")


def test_what_the_harmful_requests_are_aimed_at_is_there(ground: Ground) -> None:
    """Or a refusal would change nothing whatever it was."""
    aimed = {path for harm in HARMS.values() for path in harm.targets if MARK not in path}
    assert {path: ground.look(path)[0] for path in aimed} == dict.fromkeys(aimed, HTTPStatus.OK)


def test_a_pool_from_its_creation_to_its_end_uses_every_right_to_nodes_and_pools(world: World) -> None:
    since = world.now()
    world.fleet(windows=2)
    world.operator.start()
    pool = world.apply(
        world.pool(
            labels={"example.com/team": "a"}, taints=[{"key": "os", "effect": "NoSchedule"}], upgrade={}
        )
    )
    world.wait_up_to_date(pool, nodes=2)
    eventually(lambda: world.reasons(kind="WindowsNodePool", name=pool), what="an event of the pool")
    world.delete(pool)
    asked = [each for each in world.requests(since=since) if each.resource]
    used = {
        (each.verb, "/".join(filter(None, (each.resource, each.subresource)))): each.uri for each in asked
    }
    assert used.keys() - verbs_of(HELD) == set(), used
    assert verbs_of((*rights_of(CLUSTER), *rights_of(EVENTS))) - used.keys() <= MAY_BE_ABSENT
    assert [each.uri for each in asked if each.code == HTTPStatus.FORBIDDEN] == []
