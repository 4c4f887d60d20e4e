"""The table of rights against the requests that the code can make: none is missing, and none is too many."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import winpool
from gen.rights import (
    CLUSTER,
    EVENTS,
    FORCE,
    INSTALLED,
    MEMORY,
    READER,
    READER_TOKEN,
    RIGHTS,
    ROLLOUT,
    WITH_MEMORY,
    Right,
    rights_of,
)
from harness.sources import tree_of
from winpool.api.fence import EVICT, SYSTEM_PODS, eviction_policy
from winpool.api.keys import CRD_NAME, PLURAL, READER_ACCOUNT, SERVICE_ACCOUNT
from winpool.kube.events import EventRecord
from winpool.kube.listers import CONTROLLERS
from winpool.kube.lists import Kind, Listing
from winpool.kube.request import Request
from winpool.kube.watch import Target
from winpool.kubelet.samples import CONFIGZ_PATH, SUMMARY_PATH

SOURCE: Final = Path(winpool.__file__).parent

Asked = tuple[str, str, str]
"""Verb, resource, and the name of the one object that a list or watch is restricted to, or no name."""

BY_KOPF: Final = {
    *((verb, PLURAL, "") for verb in ("list", "watch")),
    *((verb, "customresourcedefinitions", CRD_NAME) for verb in ("list", "watch")),
}
"""What Kopf asks because of ``kube/feed.py``: for the handler of pools, and to find their CRD."""
WITH_VARIABLES: Final[dict[str, set[Asked]]] = {
    # The calls of Listing say what.
    "kube/lists.py": set(),
    "kube/leader_election.py": {(verb, "leases", "") for verb in ("get", "create", "patch")},
    "kube/events.py": {("create", "events", ""), ("patch", "events", "")},
    "kube/writer.py": {("patch", each, "") for each in ("nodes", "nodes/status", PLURAL, f"{PLURAL}/status")},
    "kube/tokens.py": {
        ("create", each, "") for each in ("tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews")
    },
}
"""The modules where verb or resource of a request are no constants, with what they ask."""
LISTED_ONLY: Final = {
    *("pods", "runtimeclasses", "daemonsets", "volumeattachments"),
    *("replicasets", "deployments", "statefulsets", "replicationcontrollers", "jobs"),
}
"""What no `ListWatch` is made for."""
WITHOUT_A_RIGHT: Final = {
    ("get", "version", ""): "everyone may read it",
    ("create", "selfsubjectaccessreviews", ""): "everyone may ask what they may do themselves",
}
BY_THE_FENCE: Final[Asked] = (EVICT, SYSTEM_PODS, "")
"""A right that no request needs: a policy asks whether the operator has it."""
OF_THE_OPERATOR: Final = tuple(right for right in RIGHTS if right.role.account == SERVICE_ACCOUNT)


def modules() -> Iterator[Path]:
    """Yield the modules of the operator; the plugin has the rights of the person who runs it."""
    return (path for path in SOURCE.rglob("*.py") if "cli" not in path.relative_to(SOURCE).parts)


def calls_of(kind: type, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each call in a module that makes a ``kind``; what only a run can say is None."""
    text = path.read_text()
    if f"{kind.__name__}(" not in text:
        return
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    named = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == kind.__name__]
    if named:
        dotted = ".".join(("winpool", *path.relative_to(SOURCE).with_suffix("").parts))
        known = vars(importlib.import_module(dotted))
        if known[kind.__name__] is kind:
            for call in named:
                yield {each.arg: value_of(each.value, known) for each in call.keywords if each.arg}


def value_of(node: ast.expr, known: dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "argument", "eval"), dict(known))  # noqa: S307 - our own code
    except NameError:
        return None


@cache
def asked() -> frozenset[Asked]:
    """Return everything that the code can ask of the API server."""
    found: set[Asked] = {*BY_KOPF, *(("list", resource, "") for resource, *_ in CONTROLLERS)}
    for path in modules():
        for call in calls_of(Request, path):
            if call["verb"] and call["resource"]:
                found.add((call["verb"], call["resource"], ""))
            else:
                found |= WITH_VARIABLES[str(path.relative_to(SOURCE))]
        for call in (*calls_of(Listing, path), *calls_of(Kind, path)):
            if resource := call.get("resource"):  # None: that of a Kind or a Target
                found |= {
                    (verb, resource, "") for verb in ("list", "watch")[: 1 if resource in LISTED_ONLY else 2]
                }
        for call in calls_of(Target, path):
            found |= {(verb, call["resource"], call["name"]) for verb in ("list", "watch")}
    return frozenset(found)


def granted(right: Right) -> set[Asked]:
    return {
        (verb, resource, name if verb in {"list", "watch"} else "")
        for verb in right.verbs
        for resource in right.resources
        for name in right.names or ("",)
    }


def test_requests_are_found() -> None:
    """Or nothing below would say anything."""
    assert {("patch", "nodes", ""), ("create", "events", ""), ("list", "pods", "")} <= asked()
    assert ("watch", "validatingadmissionpolicies", "winpool-guard") in asked()


@pytest.mark.parametrize("right", OF_THE_OPERATOR, ids=lambda right: f"{right.verbs[0]} {right.resources[0]}")
def test_the_operator_uses_every_right_that_it_has(right: Right) -> None:
    assert granted(right) - asked() == granted(right) & {BY_THE_FENCE}


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right.verbs[0]} {right.resources[0]}")
def test_the_modules_that_use_a_right_are_there(right: Right) -> None:
    for path in right.used_by:
        assert (SOURCE / path).exists(), path


def test_the_operator_has_a_right_for_every_request_that_it_makes() -> None:
    rights = {each for right in OF_THE_OPERATOR for each in granted(right)}
    assert asked() - rights == WITHOUT_A_RIGHT.keys()


def test_the_account_whose_token_kubelets_are_shown_may_read_what_is_asked_of_them() -> None:
    """A kubelet asks for the right to a subresource of its node, by the path of the request.

    https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/
    """
    paths = {"nodes/stats": SUMMARY_PATH, "nodes/configz": CONFIGZ_PATH}
    assert {each for right in rights_of(READER) for each in granted(right)} == {
        ("get", resource, "") for resource in paths
    }
    for resource, path in paths.items():
        assert path.split("/")[1] == resource.removeprefix("nodes/")
    assert {right.role.account for right in RIGHTS} == {SERVICE_ACCOUNT, READER_ACCOUNT}


def test_events_are_written_where_the_role_is() -> None:
    [right] = rights_of(EVENTS)
    of_a_node = EventRecord(
        api_version="v1", kind="Node", name="w1", uid="uid", reason="Told", action="Tell", note="."
    )
    assert of_a_node.path == f"/apis/{right.group}/v1/namespaces/{EVENTS.namespace}/events"


def test_no_right_is_a_wildcard_and_each_has_one_sentence_of_reason() -> None:
    for right in RIGHTS:
        words = (right.group, *right.resources, *right.names, *right.verbs)
        assert not [word for word in words if "*" in word], right
        assert right.reason.endswith("."), right
        assert ". " not in right.reason, right


def test_no_right_reads_secrets_or_reaches_into_pods() -> None:
    everything = {(verb, resource) for right in RIGHTS for verb, resource, _ in granted(right)}
    assert {resource for _, resource in everything}.isdisjoint({"secrets", "configmaps", "serviceaccounts"})
    assert {each for each in everything if each[1].startswith("pods")} == {
        ("list", "pods"),
        ("create", "pods/eviction"),
        ("delete", "pods"),
    }
    assert "get" not in {verb for right in rights_of(CLUSTER) for verb in right.verbs}


def test_what_only_memory_pressure_needs_comes_with_it_alone() -> None:
    installed = {each for role in INSTALLED for right in rights_of(role) for each in granted(right)}
    further = {each for role in WITH_MEMORY for right in rights_of(role) for each in granted(right)}
    # Events about nodes and pools are in one namespace, those about evicted pods in theirs.
    assert installed & further == {("create", "events", ""), ("patch", "events", "")}
    assert [right.role for right in RIGHTS if "events" in right.resources] == [EVENTS, MEMORY, ROLLOUT]
    assert {resource for _, resource, _ in installed} & {"pods/eviction", "nodes/status"} == set()
    [token] = rights_of(READER_TOKEN)
    assert token.names == (READER_ACCOUNT,)


def test_what_only_a_rollout_needs_comes_with_it_alone() -> None:
    installed = {each for role in INSTALLED for right in rights_of(role) for each in granted(right)}
    further = {each for right in rights_of(ROLLOUT) for each in granted(right)}
    assert installed & further == {("create", "events", ""), ("patch", "events", "")}
    writes = {each for each in further if each[0] not in {"list", "watch"}}
    assert writes - installed == {
        ("patch", "nodes/status", ""),
        ("create", "pods/eviction", ""),
        BY_THE_FENCE,
    }


def test_only_a_rollout_has_the_right_by_which_the_fence_permits_evictions_of_system_pods() -> None:
    assert {right.role for right in RIGHTS if BY_THE_FENCE in granted(right)} == {ROLLOUT}
    asks = f".resource('{SYSTEM_PODS}').check('{EVICT}')"
    [message] = [each["message"] for each in eviction_policy()["validations"] if asks in each["expression"]]
    assert message.endswith(f"ClusterRole {ROLLOUT.name}")


def test_what_only_force_needs_comes_with_it_alone() -> None:
    assert {each for right in rights_of(FORCE) for each in granted(right)} == {("delete", "pods", "")}
    assert {right.role for right in RIGHTS if "delete" in right.verbs} == {FORCE}
