"""What a request to an API server is about, read from its method and path.

The rules are those of the API server itself (k8s.io/apiserver, ``RequestInfoFactory.NewRequestInfo``),
so that a request has here the verb and resource that RBAC and the audit log give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
"""Verbs of requests that mean to change something."""
READS: Final = frozenset({"get", "list", "watch"})
"""Verbs of requests that only look."""
VERBS: Final = WRITES | READS

_VERB_OF_METHOD: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_OLD_WATCH: Final = "watch"
_NAME_SELECTOR: Final = "metadata.name="


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Verb and object of a request; paths that are no resource, such as /version, have no resource."""

    verb: str
    resource: str = ""
    """Plural name with its subresource, as RBAC writes it: ``nodes``, ``nodes/status``."""
    group: str = ""
    namespace: str = ""
    name: str = ""


def target_of(method: str, path: str) -> Target:
    """Return what a request is about; ``path`` includes the query."""
    url = urlsplit(path)
    verb = _VERB_OF_METHOD.get(method, method.lower())
    parts = [unquote(part) for part in url.path.split("/") if part]
    group = ""
    match parts:
        case ["api", _, *rest] if rest:
            pass
        case ["apis", group, _, *rest] if rest:
            pass
        case _:
            return Target(verb=verb)
    if rest[0] == _OLD_WATCH and len(rest) > 1:  # /api/v1/watch/nodes, deprecated and still served
        verb, rest = "watch", rest[1:]
    namespace, rest = _namespace_and_rest(rest)
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join((rest[0], *rest[2:3]))
    if not name:
        verb, name = _collection_verb(verb, parse_qs(url.query, keep_blank_values=True))
    return Target(verb=verb, resource=resource, group=group, namespace=namespace, name=name)


def _namespace_and_rest(rest: list[str]) -> tuple[str, list[str]]:
    """Split off the namespace; for a Namespace itself it is both the namespace and the object."""
    if rest[0] != "namespaces" or len(rest) < 2:
        return "", rest
    if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        return rest[1], rest[2:]
    return rest[1], rest


def _collection_verb(verb: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
    """Return the verb of a request without a name, and the one name that a field selector leaves."""
    if verb == "get":
        watching = query.get("watch", ["false"])[0].lower() not in ("false", "0")
        verb = "watch" if watching else "list"
    elif verb == "delete":
        verb = "deletecollection"
    selector = query.get("fieldSelector", [""])[0]
    alone = selector.startswith(_NAME_SELECTOR) and "," not in selector
    return verb, selector.removeprefix(_NAME_SELECTOR) if alone and verb in ("list", "watch") else ""
