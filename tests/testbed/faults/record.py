"""What the proxy remembers of a request, and the words to say which requests are meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from testbed.faults.target import VERBS, WRITES


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request as it stands: a later snapshot of the log may know more of it."""

    number: int
    """Counts all requests of a proxy in the order in which they had arrived whole, from 1."""
    time: datetime
    """When that was, aware."""
    verb: str
    resource: str
    """Plural name with its subresource, such as ``nodes/status``; empty for paths that are no resource."""
    group: str
    namespace: str
    name: str
    path: str
    """Path and query as the client sent them."""
    user_agent: str
    body: bytes = field(repr=False)
    forwarded: bool = False
    """Whether it went on to the API server, which may or may not have answered."""
    server_status: int | None = None
    """HTTP status of the API server's own answer, whoever got to see it."""
    reply: bytes | None = field(default=None, repr=False)
    """Body of the API server's answer, kept only where a rule acts after forwarding."""
    status: int | None = None
    """HTTP status that the client was sent; None where it was sent none (yet)."""
    bytes_sent: int = 0
    """Bytes of the body of the answer that the client was sent."""
    lines: int = 0
    """Lines of a watch that the client was sent whole."""
    actions: tuple[str, ...] = ()
    """What rules did to it, in order."""
    problem: str = ""
    """What kept it from being answered, where no rule did: the API server gone, the client gone."""
    done: bool = False
    """Whether all is over, for the client and at the API server."""

    @property
    def writes(self) -> bool:
        """Whether the request meant to change something."""
        return self.verb in WRITES

    @property
    def applied(self) -> bool:
        """Whether it is a write that the API server carried out."""
        return self.writes and self.server_status is not None and 200 <= self.server_status < 300

    @property
    def is_open_watch(self) -> bool:
        """Whether it is a watch that was begun and has not ended."""
        return self.verb == "watch" and self.status == 200 and not self.done

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.verb, self.resource or self.path, self.name)))
        did = f" ({', '.join(self.actions)})" if self.actions else ""
        return f"{self.number} {what}: {self.status or self.problem or 'no answer'}{did}"


RecordTest = Callable[[Record], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which requests are meant: those for which all that is given holds. Made by ``on``."""

    verbs: frozenset[str] | None = None
    resources: frozenset[str] | None = None
    name: str | None = None
    namespace: str | None = None
    path: re.Pattern[str] | None = None
    user_agent: re.Pattern[str] | None = None
    where: RecordTest | None = None

    def __call__(self, record: Record) -> bool:
        """Tell whether this request is meant."""
        return (
            (self.verbs is None or record.verb in self.verbs)
            and (self.resources is None or record.resource in self.resources)
            and (self.name is None or record.name == self.name)
            and (self.namespace is None or record.namespace == self.namespace)
            and (self.path is None or self.path.search(record.path) is not None)
            and (self.user_agent is None or self.user_agent.search(record.user_agent) is not None)
            and (self.where is None or self.where(record))
        )


def on(
    verb: str | Collection[str] | None = None,
    resource: str | Collection[str] | None = None,
    *,
    name: str | None = None,
    namespace: str | None = None,
    path: str | None = None,
    user_agent: str | None = None,
    where: RecordTest | None = None,
) -> Match:
    """Say which requests are meant; what is not given may be anything.

    Args:
        verb: one or several of RBAC's verbs, or ``WRITES`` or ``READS``.
        resource: one or several plural names with their subresource: ``nodes`` does not mean
            ``nodes/status``.
        name: of the object; also that of a ``fieldSelector=metadata.name=…``.
        namespace: of the object.
        path: regular expression, searched in path and query.
        user_agent: regular expression, searched in the User-Agent.
        where: anything else, told by the record; the body is in it.

    Raises:
        ValueError: a verb that no request has.

    """
    verbs = _set_of(verb)
    if verbs is not None and (unknown := verbs - VERBS):
        raise ValueError(f"no request has the verb {sorted(unknown)}; there are {sorted(VERBS)}")
    return Match(
        verbs=verbs,
        resources=_set_of(resource),
        name=name,
        namespace=namespace,
        path=None if path is None else re.compile(path),
        user_agent=None if user_agent is None else re.compile(user_agent),
        where=where,
    )


def _set_of(given: str | Collection[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    return frozenset({given} if isinstance(given, str) else given)


PROGRESS: Final = on(WRITES, where=lambda record: record.resource != "leases")
"""Writes that change something; a Lease is renewed by the clock, so counting it would count time."""
