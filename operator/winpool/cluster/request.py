"""A request to the API server as a record, and its constants."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from aiohttp import hdrs

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply. The body is JSON, which is YAML."""

OBJECT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of one object as JSON. etcd accepts 1.5 MiB for each by default, and the API server writes some
characters that are one byte in etcd as six (``<`` as ``\\u003c``). The rest is for what it adds."""

REPLY_LIMIT: Final = OBJECT_LIMIT
"""Bytes of an answer that is not a list."""

_NAMESPACE: Final = re.compile(r"/namespaces/([^/?]+)/")

_GROUP: Final = re.compile(r"/apis/([^/?]+)/")

_METHODS: Final = {
    "get": hdrs.METH_GET,
    "list": hdrs.METH_GET,
    "watch": hdrs.METH_GET,
    "create": hdrs.METH_POST,
    "patch": hdrs.METH_PATCH,
}


def namespace_of(path: str) -> str | None:
    """Return the namespace in the path of a request; None for a request in no namespace, or in all."""
    found = _NAMESPACE.search(path.partition("?")[0])
    return unquote(found[1]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the API server.

    ``verb`` and ``resource`` are RBAC's, with the subresource ("nodes", "windowsnodepools/status").
    ``path`` is the URL's path and query, already encoded. ``name`` is only for messages.
    ``guarded`` says of a write that it has the resourceVersion it was decided on (see
    ``retry``). ``reply_limit`` is in bytes.
    """

    verb: str
    resource: str
    path: str
    name: str = ""
    body: bytes | None = field(default=None, repr=False)
    """Not part of the repr: that of a TokenReview is a token."""
    content_type: str = JSON
    accept: str = JSON
    guarded: bool = False
    reply_limit: int = REPLY_LIMIT
    gzipped: bool = False
    """Whether the answer may come compressed: for one of megabytes that leaves the cluster's network."""

    @property
    def method(self) -> str:
        """The HTTP method of the verb (Kubernetes: "Authorization Overview", request verbs)."""
        return _METHODS[self.verb]

    @property
    def namespace(self) -> str | None:
        """The namespace of the request; None where it is in none, or in all."""
        return namespace_of(self.path)

    @property
    def group(self) -> str:
        """The API group that it is in, as RBAC names it: empty for the core group."""
        found = _GROUP.match(self.path)
        return unquote(found[1]) if found else ""

    @property
    def label(self) -> str:
        """The beginning of an error message: "patch nodes w1"."""
        return f"{self.verb} {self.resource} {self.name}".rstrip()

    @property
    def is_repeatable(self) -> bool:
        """Whether the transport may send it again by itself."""
        return self.guarded or self.verb in {"get", "list"}
