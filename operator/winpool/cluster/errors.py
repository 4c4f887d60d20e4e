# The names are the reasons of the Kubernetes API itself, which have no suffix.
# ruff: noqa: N818
"""What can go wrong between winpool and the API server, as types that callers can name.

The HTTP status decides the type (Kubernetes API conventions, "HTTP status codes"), the
Status object in the answer gives the reason and the words. No message ever carries a
request header, so none can carry a token; what a URL says before its "@" is cut out of each.
"""

from __future__ import annotations

import email.utils
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from winpool.api.text import printable
from winpool.cluster.status_object import DISRUPTION_BUDGET, cause_of, status_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MESSAGE_LIMIT: Final = 1024
"""Characters of a server's message that are kept: answers of proxies can be whole pages."""

_UNAVAILABLE_FROM: Final = 500

LONGEST_RETRY_AFTER_SECONDS: Final = 86_400.0
"""What a Retry-After beyond a day is taken for. No loop waits as long, and a number without bound may be
infinite."""

_USER_INFO: Final = re.compile(r"(?<=://)\S*@")


def without_passwords(text: str) -> str:
    """Cut what stands before an "@" out of each URL in ``text``: it may be a user and a password.

    Up to the last one, even behind a slash: passwords in URLs are not always escaped as they should be.
    """
    return _USER_INFO.sub("", text)


class ApiError(Exception):
    """A request was not answered as hoped. Base of everything this room raises.

    ``status`` is the HTTP status, None where no answer came. ``reason`` is the CamelCase
    reason of Kubernetes, or ours where there was none. ``message`` is one line for people.
    ``retry_after`` is how many seconds the server asked us to stay away, where it did.
    """

    def __init__(
        self, message: str, *, status: int | None = None, reason: str = "", retry_after: float | None = None
    ) -> None:
        # Half of it is what a server, a proxy or a plugin said, and it is logged and served on /readyz.
        self.message = printable(without_passwords(message))
        super().__init__(self.message)
        self.status = status
        self.reason = reason or type(self).__name__
        self.retry_after = retry_after


class CredentialsError(ApiError):
    """Who we are is missing or cannot be read: no usable kubeconfig, token or plugin answer."""


class Unauthorized(ApiError):
    """401: the server does not believe who we say we are, also with credentials freshly read."""


class Forbidden(ApiError):
    """403: the server knows us and refuses. ``permission`` is what RBAC misses, where it said so."""

    permission: Permission | None = None


class NotFound(ApiError):
    """404: the object is not there (or its kind is not: a missing CRD answers the same)."""


class Conflict(ApiError):
    """409: the object changed since it was read. Not a fault: look again."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists: an object of that name is there already."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old. List anew."""


class Invalid(ApiError):
    """422, 400 or 413: the server will never take this request as it is."""


class TooManyRequests(ApiError):
    """429: not now. The request was not carried out; ``retry_after`` tells when to come back."""


class DisruptionBudget(TooManyRequests):
    """429 with this cause: a PodDisruptionBudget does not permit the eviction of this one pod now."""


class Unavailable(ApiError):
    """5xx, no connection, no answer in time, or an answer that broke off or cannot be read."""


class NoAnswer(Unavailable):
    """No answer came in the whole time that a request may take."""


class UnconfirmedRefusal(Unavailable):
    """403, but for so short a time that the server may only be starting. See ``first_refusals``."""


class StreamSilent(Unavailable):
    """Nothing came on a watch for longer than bookmarks allow: it may be dead, or wait for ever."""


class StreamCut(Unavailable):
    """A watch ended in the middle of a line, or its connection broke."""


class StreamGarbled(Unavailable):
    """A line of a watch, or an answer, is not what Kubernetes sends there."""


class TooLarge(ApiError):
    """An answer or a line is larger than we are willing to hold in memory."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One thing somebody may or may not do, in the words of RBAC.

    ``resource`` includes the subresource, as in "nodes/status"; ``group`` is "" for the
    core group; ``namespace`` is None for a request at cluster scope.
    """

    verb: str
    resource: str
    group: str
    namespace: str | None
    user: str


# The sentence of the RBAC authorizer, k8s.io/apiserver: pkg/endpoints/handlers/responsewriters/errors.go
_FORBIDDEN_SENTENCE: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>[a-z*]+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)"| at the cluster scope)'
)


def parse_permission(message: str) -> Permission | None:
    """Read the missing permission out of a 403 message, None where it is not RBAC that refused."""
    found = _FORBIDDEN_SENTENCE.search(message)
    if found is None:
        return None
    return Permission(
        verb=found["verb"],
        resource=found["resource"],
        group=found["group"],
        namespace=found["namespace"],
        user=found["user"],
    )


def parse_retry_after(
    value: str | None, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """Seconds to stay away by a Retry-After header, given as seconds or as a date (RFC 9110, 10.2.3).

    None where the header is absent or makes no sense; from 0 to LONGEST_RETRY_AFTER_SECONDS.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text)
    else:
        try:
            moment = email.utils.parsedate_to_datetime(text)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            seconds = (moment - now()).total_seconds()
        except (ValueError, TypeError, OverflowError, IndexError):  # all of them come from odd dates
            return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_SECONDS)


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def error_of(*, status: int, body: bytes, request: str, retry_after: str | None = None) -> ApiError:
    """Turn an HTTP answer into the error to raise.

    ``request`` names what was asked, such as "patch nodes w1"; it opens the message, so
    that a log line is understood by itself.
    """
    told = status_object(body)
    words = " ".join((told.message or _plain_text(body) or "no explanation given").split())
    kind = _BY_STATUS.get(status, Unavailable if status >= _UNAVAILABLE_FROM else ApiError)
    if kind is Conflict and told.reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is TooManyRequests and (cause := cause_of(told, DISRUPTION_BUDGET)):
        kind, words = DisruptionBudget, " ".join([words, *(cause.message or "").split()])
    error = kind(
        f"{request}: {status} {words.removeprefix(f'{status} ')}"[:_MESSAGE_LIMIT],
        status=status,
        reason=told.reason or "",
        retry_after=parse_retry_after(retry_after),
    )
    if isinstance(error, Forbidden):
        error.permission = parse_permission(words)
    return error


def _plain_text(body: bytes) -> str:
    """Take the first line of an answer that is no Status, such as a proxy's or a mux's error text."""
    text = body[:_MESSAGE_LIMIT].decode("utf-8", errors="replace").strip()
    return "" if text.startswith(("<", "{")) else text.partition("\n")[0]
