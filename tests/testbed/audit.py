"""Reads the audit log of the API server: who asked for what, when, and what was the answer."""

import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

WRITE_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READ_VERBS: Final = frozenset({"get", "list", "watch"})
LINE_START: Final = b'{"kind":"Event"'
FINAL_STAGES: Final = frozenset({"ResponseComplete", "Panic"})


# There are hundreds of thousands: none of them can be part of a cycle, so the collector need not see them.
class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class _User(msgspec.Struct):
    username: str = ""


class _Target(msgspec.Struct, rename="camel"):
    resource: str = ""
    api_group: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct, rename="camel"):
    """What we want of an ``audit.k8s.io/v1`` event."""

    audit_id: str = msgspec.field(name="auditID")
    uri: str = msgspec.field(name="requestURI")
    stage: str
    verb: str
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    impersonated_user: _User | None = None
    user_agent: str = ""
    object_ref: _Target = msgspec.field(default_factory=_Target)
    response_status: _Status = msgspec.field(default_factory=_Status)


_decode_event: Final[Callable[[bytes], _Event]] = msgspec.json.Decoder(_Event).decode
_received: Final[Callable[[AuditRecord], datetime]] = attrgetter("received")


def parse(line: bytes) -> AuditRecord:
    """Make a record of a line. One that was cut by a kill of the API server has the next one glued to it."""
    event = _decode(line)
    target, actor = event.object_ref, event.impersonated_user or event.user
    # Few texts come again and again; each is kept once.
    return AuditRecord(
        audit_id=event.audit_id,
        user=sys.intern(actor.username),
        authenticated_user=sys.intern(event.user.username),
        verb=sys.intern(event.verb),
        resource=sys.intern(target.resource),
        api_group=sys.intern(target.api_group),
        subresource=sys.intern(target.subresource),
        name=sys.intern(target.name),
        namespace=sys.intern(target.namespace),
        code=event.response_status.code,
        user_agent=sys.intern(event.user_agent),
        received=event.request_received_timestamp,
        completed=event.stage_timestamp if event.stage in FINAL_STAGES else None,
        stage=sys.intern(event.stage),
        uri=event.uri,
    )


def _decode(line: bytes) -> _Event:
    try:
        return _decode_event(line)
    except msgspec.DecodeError:
        _, start, rest = line.rpartition(LINE_START)
        return _decode_event(start + rest)


class _Row:
    """Records in the order in which their requests were received."""

    def __init__(self) -> None:
        self._records: list[AuditRecord] = []

    def add(self, record: AuditRecord) -> None:
        if self._records and record.received < self._records[-1].received:
            insort(self._records, record, key=_received)
        else:
            self._records.append(record)

    def remove(self, record: AuditRecord) -> None:
        place = bisect_left(self._records, record.received, key=_received)
        while self._records[place] is not record:
            place += 1
        del self._records[place]

    def between(self, since: datetime | None, until: datetime | None) -> list[AuditRecord]:
        first = 0 if since is None else bisect_left(self._records, since, key=_received)
        end = None if until is None else bisect_left(self._records, until, key=_received)
        return self._records[first:end]


class AuditLog:
    """The requests of one testbed, oldest first, each once.

    What may be concluded from it: the API server writes a request's line itself, before the handler
    returns (``--audit-log-mode=blocking``), so there is no batch to wait for. An answer of up to 4 KiB
    leaves the server after its line is in the file; a longer one may reach the client microseconds
    earlier. ``Testbed.settle_audit`` closes that gap, and after it the absence of a request is a proof.
    The log is not rotated. Only complete lines are read, each once, and a question looks only at the
    requests of the user and the time that it names, so that asking is cheap even when the file is long.
    A kill of the API server may lose the lines of requests that it never answered.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._records: dict[str, AuditRecord] = {}
        self._all = _Row()
        self._by_user: defaultdict[str, _Row] = defaultdict(_Row)

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
        row = self._all if user is None else self._by_user[user]
        kind, _, subresource = (resource or "").partition("/")
        return [
            record
            for record in row.between(since, until)
            if (verbs is None or record.verb in verbs)
            and (resource is None or record.resource == kind)
            and (not subresource or record.subresource == subresource)
        ]

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
                self._add(parse(line))

    def _add(self, record: AuditRecord) -> None:
        rows = (self._all, self._by_user[record.user])
        known = self._records.get(record.audit_id)
        if known is not None:
            # The lines of one request may be read in either order; the one that completes it stands.
            if known.completed is not None:
                return
            for row in rows:
                row.remove(known)
        self._records[record.audit_id] = record
        for row in rows:
            row.add(record)
