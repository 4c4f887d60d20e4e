"""Names what can go wrong between winpool and the API server, as types that callers can catch.

The HTTP status decides the type (Kubernetes API conventions, "HTTP status codes"), the Status object in the
answer has the reason and the message. From a 403 follows the RBAC rule that is missing: asking beforehand
(SelfSubjectAccessReview) would cost a POST per permission at every start, and a yes could be out of date a
second later. No message contains a request header of ours; passwords and tokens that others quote are cut
out of each.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from winpool.api.text import printable
from winpool.kube.wire import DISRUPTION_BUDGET, cause_of, status_code, status_object

# The names are the reasons of the Kubernetes API itself, which have no suffix.
# ruff: noqa: N818

_MESSAGE_LIMIT: Final = 1024
"""Characters of a server's message that are kept: answers of proxies can be whole pages."""

_UNAVAILABLE_FROM: Final = 500

LONGEST_RETRY_AFTER_SECONDS: Final = 86_400.0
"""A longer Retry-After counts as this one. No loop waits as long, and a number without bound may be
infinite."""

_TEXT_READ: Final = 4 * _MESSAGE_LIMIT
"""Characters of a server's message that are looked through for secrets, and so can be shown at all."""

_BODY_READ: Final = 4 * _TEXT_READ + 1
"""Bytes of an answer that is no Status: so many that what is cut off here is never shown."""

_SECRETS: Final = (
    # Up to the last "@", even behind a slash: passwords in URLs are not always escaped as they should be. Or
    # to the end of a URL that has none, since it may have been cut before it. What is all digits is a port.
    (re.compile(r"(?<=//)(?:\S*@|[^\s/@:\[\]]+:(?!\d{1,5}(?!\w))\S*)"), ""),
    (re.compile(r"([?&](?:[\w-]*(?:token|key|secret|password)|sig)=)[^\s&#\"']+", re.IGNORECASE), r"\1…"),
    (re.compile(r"(\bBearer\s+)\S+", re.IGNORECASE), r"\1…"),
)


def without_passwords(text: str) -> str:
    """Cut out of ``text`` users and passwords of URLs, secrets in their queries, and bearer tokens.

    Do so before the text is cut anywhere: half a URL does not show what is a password.
    """
    if len(text) > _TEXT_READ:
        # A cut word may be half of a secret.
        text = text[:_TEXT_READ].rpartition(" ")[0] + " …"
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text


class ApiError(Exception):
    """A request failed. Base of everything that this package raises.

    ``status`` is the HTTP status, None where no answer came. ``reason`` is the CamelCase
    reason of Kubernetes, or ours where there was none. ``message`` is one line for people.
    ``retry_after`` is how many seconds the server asked us to wait, where it did.
    """

    def __init__(
        self, message: str, *, status: int | None = None, reason: str = "", retry_after: float | None = None
    ) -> None:
        # Part of it comes from a server, a proxy or a plugin, and it is logged and served on /readyz.
        self.message = printable(without_passwords(message))
        super().__init__(self.message)
        self.status = status
        self.reason = reason or type(self).__name__
        self.retry_after = retry_after


class CredentialsError(ApiError):
    """Our credentials are missing or cannot be read: no usable kubeconfig, token or plugin answer."""


class Unauthorized(ApiError):
    """401: the server does not accept our credentials, even after they were read again."""


class Forbidden(ApiError):
    """403: the server knows us and refuses. ``permission`` is what RBAC does not permit, where it says so."""

    permission: Permission | None = None


class NotFound(ApiError):
    """404: the object is not there (or its kind is not: a missing CRD answers the same)."""


class Conflict(ApiError):
    """409: the object changed since it was read. This is not an error: read it and decide again."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists: an object of that name exists already."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old. A new list is needed."""


class Invalid(ApiError):
    """422, 400 or 413: the server will never accept this request as it is."""


class TooManyRequests(ApiError):
    """429: not now. The request was not carried out; ``retry_after`` says when to try again."""


class DisruptionBudget(TooManyRequests):
    """429 with this cause: a PodDisruptionBudget does not permit the eviction of this pod now."""


class Unavailable(ApiError):
    """5xx, no connection, no answer in time, or an answer that ended early or cannot be read."""


class NoAnswer(Unavailable):
    """No answer came within the time limit of the request."""


class UnconfirmedRefusal(Unavailable):
    """403, but for so short a time that the server may still be starting. See ``FirstRefusals``."""


class StreamSilent(Unavailable):
    """Nothing came on a watch, not even a bookmark, for too long: it may be dead, or wait for ever."""


class StreamCut(Unavailable):
    """A watch ended in the middle of a line, or its connection broke."""


class StreamGarbled(Unavailable):
    """A line of a watch, or an answer, is not what Kubernetes sends."""


class NotLeading(ApiError):
    """Never sent: this process may not write now, since it is not the operator that leads."""


class NotWanted(ApiError):
    """Never sent: what it was decided on has changed meanwhile. See ``unless``."""


class TooLarge(ApiError):
    """An answer or a line is larger than the limit for what is kept in memory."""


class Permission(msgspec.Struct, frozen=True):
    """One permission, in the words of RBAC.

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


# What admission says before the words of a webhook or policy, k8s.io/apiserver: pkg/admission/plugin.
_DENIED_BY_ADMISSION: Final = re.compile(r"admission webhook |(?:Validating|Mutating)AdmissionPolicy ")


def parse_permission(message: str) -> Permission | None:
    """Read the missing permission from a 403 message; None for a refusal that is not from RBAC.

    A webhook or a policy may quote the sentence of RBAC, about any user.
    """
    found = _FORBIDDEN_SENTENCE.search(message)
    if found is None or _DENIED_BY_ADMISSION.search(message, 0, found.start()):
        return None
    return Permission(**found.groupdict())


def parse_retry_after(
    value: str | None, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """Return the seconds to wait by a Retry-After header, which has seconds or a date (RFC 9110, 10.2.3).

    None where the header is absent or invalid; from 0 to LONGEST_RETRY_AFTER_SECONDS.
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
        except (ValueError, TypeError, OverflowError, IndexError):  # invalid dates raise all of them
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


def error_of(
    *, status: int, body: bytes, request: str, retry_after: str | None = None, group: str | None = None
) -> ApiError:
    """Turn an HTTP answer into the error to raise.

    ``request`` names the request by RBAC's verb and resource, such as "patch nodes w1". The message begins
    with it, so that a log line can be understood on its own. ``group`` is the API group of the resource, None
    where it is not known. A missing permission is believed only where it is the one for this request.
    """
    told = status_object(body)
    words = " ".join((told.message or _plain_text(body) or "no explanation given").split())
    kind = _BY_STATUS.get(status, Unavailable if status >= _UNAVAILABLE_FROM else ApiError)
    if kind is Conflict and told.reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is TooManyRequests and (cause := cause_of(told, DISRUPTION_BUDGET)):
        kind, words = DisruptionBudget, " ".join([words, *(cause.message or "").split()])
    error = kind(
        without_passwords(f"{request}: {status} {words.removeprefix(f'{status} ')}")[:_MESSAGE_LIMIT],
        status=status,
        reason=told.reason or "",
        retry_after=parse_retry_after(retry_after),
    )
    if isinstance(error, Forbidden):
        error.permission = _own_permission(words, request=request, group=group)
    return error


def event_error(status: msgspec.Raw, *, request: str) -> ApiError:
    """Turn the object of an ERROR event of a watch, a meta/v1 Status, into the error that it stands for.

    Raises what BROKEN names.
    """
    code = status_code.decode(status).code or _UNAVAILABLE_FROM
    return error_of(status=code, body=bytes(status), request=request)


def _own_permission(words: str, *, request: str, group: str | None) -> Permission | None:
    """Return the permission that ``words`` say is missing, if it is the one that ``request`` needs.

    Or the one to act as another user, which RBAC checks first.
    """
    found = parse_permission(words)
    if found is None or found.verb == "impersonate":
        return found
    is_ours = request.split()[:2] == [found.verb, found.resource] and group in (None, found.group)
    return found if is_ours else None


def _plain_text(body: bytes) -> str:
    """Return the first line of an answer that is not a Status, such as a proxy's or a mux's error text."""
    text = body[:_BODY_READ].decode("utf-8", errors="replace").strip()
    return "" if text.startswith(("<", "{")) else text.partition("\n")[0]


def rule_text(permission: Permission, *, name: str = "") -> str:
    """Write the rule that would grant ``permission``, in YAML flow style, ready for a Role.

    With ``name`` it is for the object of that name only.
    """
    names = f' resourceNames: ["{name}"],' if name else ""
    return (
        f'{{apiGroups: ["{permission.group}"], resources: ["{permission.resource}"],'
        f'{names} verbs: ["{permission.verb}"]}}'
    )


def explain(error: Forbidden, *, name: str = "") -> str:
    """Say what is not permitted and which rule to add where: the text of MissingPermission.

    ``name`` restricts the rule to one object, where all others would be too much.

    For a refusal that is not from RBAC (such as one of an admission policy), it is the server's own sentence.
    """
    permission = error.permission
    if permission is None:
        return error.message
    if permission.namespace is None:
        place, role = "in the whole cluster", "a ClusterRole"
    else:
        place, role = f"in namespace {permission.namespace}", f"a Role in namespace {permission.namespace}"
    resource = permission.resource + (f".{permission.group}" if permission.group else "")
    return (
        f"{permission.user} may not {permission.verb} {resource} {place}."
        f" Add the rule {rule_text(permission, name=name)} to {role} that is bound to it."
    )


def explained(error: ApiError, *, name: str = "") -> ApiError:
    """Return a refusal in the words of ``explain``, and any other error as it is."""
    if not isinstance(error, Forbidden):
        return error
    told = Forbidden(
        explain(error, name=name), status=error.status, reason=error.reason, retry_after=error.retry_after
    )
    told.permission = error.permission
    return told
