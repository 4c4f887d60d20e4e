"""``kubectl get … -o json`` without a kubectl."""

from __future__ import annotations

import argparse
import threading
from typing import Any, Final, NoReturn

from testbed.api import Api

Object = dict[str, Any]

NAMESPACED: Final = {"pods": "/api/v1", "events": "/api/v1", "daemonsets": "/apis/apps/v1"}
CLUSTER_SCOPED: Final = {
    "nodes": "/api/v1/nodes",
    "node": "/api/v1/nodes",
    "wnp": "/apis/winpool.dev/v1alpha1/windowsnodepools",
    "clusterrole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}
"""Where the API server has them, by the names that tests use."""


def get(api: Api, *words: str) -> Object:
    """Return what kubectl would print.

    Args:
        api: who asks.
        words: a kind of those above, the name of an object or none, ``-n``, ``-l``, ``--field-selector`` and
            ``--show-managed-fields``.

    Raises:
        ApiError: there is no such object.
        TestbedError: the API server does not answer.

    """
    with _PARSING:
        asked = _PARSER.parse_intermixed_args(words)
    found = api.get(
        f"{_path(asked)}/{asked.name}" if asked.name else _path(asked),
        **({"labelSelector": asked.labels} if asked.labels else {}),
        **({"fieldSelector": asked.fields} if asked.fields else {}),
    )
    if asked.name:
        return _shown(found, asked)
    named = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
    return {**found, "items": [_shown({**named, **each}, asked) for each in found["items"]]}


def _shown(found: Object, asked: argparse.Namespace) -> Object:
    if not asked.managed:
        found["metadata"].pop("managedFields", None)
    return found


def _path(asked: argparse.Namespace) -> str:
    if asked.kind in CLUSTER_SCOPED:
        return CLUSTER_SCOPED[asked.kind]
    return f"{NAMESPACED[asked.kind]}/namespaces/{asked.namespace}/{asked.kind}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"cannot ask so without kubectl: {message}")


_PARSING: Final = threading.Lock()
"""``parse_intermixed_args`` changes the parser while it reads, and many threads of a test ask at once."""
_PARSER: Final = _Parser(add_help=False, allow_abbrev=False)
_PARSER.add_argument("kind", choices=[*CLUSTER_SCOPED, *NAMESPACED])
_PARSER.add_argument("name", nargs="?")
_PARSER.add_argument("-n", dest="namespace", default="default")
_PARSER.add_argument("-l", dest="labels")
_PARSER.add_argument("--field-selector", dest="fields")
_PARSER.add_argument("--show-managed-fields", dest="managed", action="store_true")
