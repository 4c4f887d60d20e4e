"""Every request that the API server knows, by its own discovery, as somebody sends it: a dry run."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from harness.identity import MERGE_PATCH, Caller

Object = dict[str, Any]

DRY_RUN: Final = "?dryRun=All"
ABOUT: Final = "anything"
"""The name of the objects that are asked for. A right to objects of some name only would be among the rules
that the API server tells."""

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_WITHOUT_NAME: Final = {"list", "watch", "create", "deletecollection"}
_CONNECTING: Final = {"proxy", "exec", "attach", "portforward"}
"""Subresources that have no dry run. Who may use one is connected, and has failed the test anyway."""


class Tried(NamedTuple):
    """A request: its verb, API group and resource, and where it was sent."""

    verb: str
    group: str
    resource: str
    path: str


def let_through(caller: Caller, *, namespace: str) -> set[Tried]:
    """Send every verb of every resource and subresource; return those that are not refused (403).

    Namespaced resources are asked for in ``namespace`` and, where they are listed, in all namespaces.
    """
    found: set[Tried] = set()
    for tried in _all(caller, namespace):
        method, kind = _METHODS[tried.verb], "application/json"
        if tried.verb == "patch":
            kind = MERGE_PATCH
        body: Object | None = {} if method in ("POST", "PUT", "PATCH") else None
        if caller.status(method, tried.path, body, kind=kind) != HTTPStatus.FORBIDDEN:
            found.add(tried)
    return found


def _all(caller: Caller, namespace: str) -> Iterator[Tried]:
    for group, root in _versions(caller):
        _, told = caller.ask("GET", root)
        for resource in told["resources"]:
            yield from _tries(resource, group=group, root=root, namespace=namespace)


def _versions(caller: Caller) -> Iterator[tuple[str, str]]:
    """Yield each API group with the path of each of its versions."""
    yield "", "/api/v1"
    _, told = caller.ask("GET", "/apis")
    for group in told["groups"]:
        for version in group["versions"]:
            yield group["name"], f"/apis/{version['groupVersion']}"


def _tries(resource: Object, *, group: str, root: str, namespace: str) -> Iterator[Tried]:
    name, _, subresource = resource["name"].partition("/")
    there = f"{root}/namespaces/{namespace}" if resource["namespaced"] else root
    for verb in resource["verbs"]:
        places = [there]
        if resource["namespaced"] and verb in ("list", "watch"):
            places.append(root)
        for place in places:
            path = f"{place}/{name}"
            if subresource or verb not in _WITHOUT_NAME:
                path += f"/{ABOUT}"
            if subresource:
                path += f"/{subresource}"
            yield Tried(verb, group, resource["name"], path + _query(verb, subresource))


def _query(verb: str, subresource: str) -> str:
    if verb == "watch":
        return "?watch=1&timeoutSeconds=1"
    if verb in ("get", "list") or subresource in _CONNECTING:
        return ""
    return DRY_RUN


SPECIAL: Final = (
    *(("impersonate", "", kind) for kind in ("users", "groups", "serviceaccounts")),
    *(("impersonate", "authentication.k8s.io", kind) for kind in ("uids", "userextras/scopes")),
    *(
        (verb, "rbac.authorization.k8s.io", kind)
        for verb in ("escalate", "bind")
        for kind in ("roles", "clusterroles")
    ),
    *((verb, "certificates.k8s.io", "signers") for verb in ("approve", "sign", "attest")),
    ("request-serviceaccounts-token-audience", "", ABOUT),
    *(("get", "", f"nodes/{each}") for each in ("proxy", "metrics", "log", "pods", "healthz", "checkpoint")),
    *((verb, "", "nodes/stats") for verb in ("create", "update", "patch", "delete")),
    ("create", "", "nodes/configz"),
    ("use", "policy", "podsecuritypolicies"),
    ("*", "*", "*"),
)
"""Verbs, API groups and resources that no discovery lists.
https://kubernetes.io/docs/reference/access-authn-authz/authorization/#request-verb-resource"""


def may(caller: Caller, verb: str, group: str, resource: str) -> bool:
    """Return whether somebody may do that anywhere, by the word of the API server."""
    kind, _, subresource = resource.partition("/")
    spec = {"verb": verb, "group": group, "resource": kind, "subresource": subresource}
    status, told = caller.ask(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": spec}},
    )
    assert status == HTTPStatus.CREATED, told
    return bool(told["status"]["allowed"])
