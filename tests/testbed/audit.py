"""Reads the audit log of the API server: who asked for what, when, and what was the answer."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

WRITE_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READ_VERBS: Final = frozenset({"get", "list", "watch"})
LINE_START: Final = b'{"kind":"Event"'
FINAL_STAGES: Final = frozenset({"ResponseComplete", "Panic"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One request, as far as it is known: a watch that still runs has no time of completion."""

    audit_id: str
    user: str
    """On whose behalf it was done: the impersonated user where there is one."""
    authenticated_user: str
    """Who showed the credentials; differs from ``user`` under impersonation only."""
    verb: str
    resource: str
    """Plural name without its group, such as ``nodes``; empty for URIs that are no resource."""
    api_group: str
    subresource: str
    name: str
    namespace: str
    code: int
    """HTTP status."""
    user_agent: str
    received: datetime
    completed: datetime | None
    stage: str
    uri: str

    @property
    def writes(self) -> bool:
        """Whether the request meant to change something."""
        return self.verb in WRITE_VERBS


def parse(event: dict[str, Any]) -> AuditRecord:
    """Make a record of one ``audit.k8s.io/v1`` event."""
    target = event.get("objectRef", {})
    authenticated = event["user"].get("username", "")
    stage = event["stage"]
    return AuditRecord(
        audit_id=event["auditID"],
        user=event.get("impersonatedUser", {}).get("username", authenticated),
        authenticated_user=authenticated,
        verb=event["verb"],
        resource=target.get("resource", ""),
        api_group=target.get("apiGroup", ""),
        subresource=target.get("subresource", ""),
        name=target.get("name", ""),
        namespace=target.get("namespace", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        user_agent=event.get("userAgent", ""),
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        completed=datetime.fromisoformat(event["stageTimestamp"]) if stage in FINAL_STAGES else None,
        stage=stage,
        uri=event["requestURI"],
    )


def _decode(line: bytes) -> dict[str, Any]:
    """Decode a line. One that was cut by a kill of the API server has the next one glued to it."""
    try:
        event: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        _, start, rest = line.rpartition(LINE_START)
        event = json.loads(start + rest)
    return event


class AuditLog:
    """The requests of one testbed, oldest first, each once.

    What may be concluded from it: the API server writes a request's line itself, before the handler
    returns (``--audit-log-mode=blocking``), so there is no batch to wait for. An answer of up to 4 KiB
    leaves the server after its line is in the file; a longer one may reach the client microseconds
    earlier. ``Testbed.settle_audit`` closes that gap, and after it the absence of a request is a proof.
    The log is not rotated. Only complete lines are read, each once, so that asking is cheap even when
    the file is long. A kill of the API server may lose the lines of requests that it never answered.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._records: dict[str, AuditRecord] = {}

    def requests(
        self,
        *,
        user: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        verbs: Collection[str] | None = None,
        resource: str | None = None,
    ) -> list[AuditRecord]:
        """Return the requests that match every filter given.

        Args:
            user: exact user name, such as ``system:serviceaccount:winpool-system:winpool``.
            since: received at this time (aware) or later.
            until: received before this time (aware).
            verbs: one of these Kubernetes verbs (``get``, ``list``, ``watch``, ``patch`` …).
            resource: plural name, such as ``nodes``; ``nodes/status`` for a subresource.

        """
        self._read()
        kind, _, subresource = (resource or "").partition("/")
        found = [
            record
            for record in self._records.values()
            if (user is None or record.user == user)
            and (since is None or record.received >= since)
            and (until is None or record.received < until)
            and (verbs is None or record.verb in verbs)
            and (resource is None or record.resource == kind)
            and (not subresource or record.subresource == subresource)
        ]
        return sorted(found, key=lambda record: record.received)

    def writes(
        self,
        *,
        user: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        resource: str | None = None,
    ) -> list[AuditRecord]:
        """Return requests that meant to change something, whatever the answer was."""
        return self.requests(user=user, since=since, until=until, verbs=WRITE_VERBS, resource=resource)

    def reads(
        self,
        *,
        user: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        resource: str | None = None,
    ) -> list[AuditRecord]:
        """Return requests that only looked: get, list, watch."""
        return self.requests(user=user, since=since, until=until, verbs=READ_VERBS, resource=resource)

    def _read(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):  # being written; it is read whole the next time
                    break
                self._offset += len(line)
                self._add(parse(_decode(line)))

    def _add(self, record: AuditRecord) -> None:
        known = self._records.get(record.audit_id)
        # The lines of one request may be read in either order; the one that completes it stands.
        if known is None or known.completed is None:
            self._records[record.audit_id] = record
