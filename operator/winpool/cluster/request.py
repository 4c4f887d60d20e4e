"""A request to the API server as a record, and the words it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply. The body is JSON, which is YAML."""

REPLY_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of an answer that is not a list: etcd takes 1.5 MiB per object, so this is generous."""

_METHODS: Final = {
    "get": hdrs.METH_GET,
    "list": hdrs.METH_GET,
    "watch": hdrs.METH_GET,
    "create": hdrs.METH_POST,
    "patch": hdrs.METH_PATCH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the API server, in its own words.

    ``verb`` and ``resource`` are RBAC's, with the subresource ("nodes", "windowsnodepools/status").
    ``path`` is the URL's path and query, already encoded. ``name`` is only for messages.
    ``guarded`` says of a write that it carries the resourceVersion it was decided on (see
    ``retry``). ``reply_limit`` is in bytes.
    """

    verb: str
    resource: str
    path: str
    name: str = ""
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    guarded: bool = False
    reply_limit: int = REPLY_LIMIT

    @property
    def method(self) -> str:
        """The HTTP method of the verb (Kubernetes: "Authorization Overview", request verbs)."""
        return _METHODS[self.verb]

    @property
    def label(self) -> str:
        """What opens an error message: "patch nodes w1"."""
        return f"{self.verb} {self.resource} {self.name}".rstrip()

    @property
    def is_repeatable(self) -> bool:
        """Whether the transport may send it again by itself."""
        return self.guarded or self.verb in {"get", "list"}
