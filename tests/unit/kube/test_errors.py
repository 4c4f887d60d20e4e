"""HTTP answers become errors that callers can name and people can read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.strategies import NASTY
from winpool.controllers.writes import is_of_one_object
from winpool.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    CredentialsError,
    DisruptionBudget,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Permission,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    error_of,
    explain,
    parse_permission,
    parse_retry_after,
    rule_text,
)
from winpool.kube.request import Request

FORBIDDEN = (
    'nodes "w1" is forbidden: User "system:serviceaccount:winpool-system:winpool" cannot patch resource'
    ' "nodes/status" in API group "" at the cluster scope'
)


def status(**fields: object) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", **fields}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", Invalid),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (405, "MethodNotAllowed", ApiError),
        (302, "", ApiError),
    ],
)
def test_the_status_decides_the_type(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_of(status=code, body=status(reason=reason, message="words"), request="patch nodes w1")
    assert type(error) is kind
    assert error.status == code
    assert error.reason == (reason or kind.__name__)
    assert error.message == f"patch nodes w1: {code} words"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"404 page not found\n", "list windowsnodepools: 404 page not found"),
        (b"<html><body>Bad Gateway</body></html>", "list windowsnodepools: 404 no explanation given"),
        (b"", "list windowsnodepools: 404 no explanation given"),
        (b"\xff\xfe\x00", "list windowsnodepools: 404 \ufffd\ufffd\\x00"),
        (b'{"kind":"Status"}', "list windowsnodepools: 404 no explanation given"),
        (b'{"kind":"Pod","message":"nope"}', "list windowsnodepools: 404 no explanation given"),
        (b'{"kind":"Status","message":7}', "list windowsnodepools: 404 no explanation given"),
    ],
)
def test_an_answer_that_is_no_status_object_still_reads_well(body: bytes, text: str) -> None:
    assert error_of(status=404, body=body, request="list windowsnodepools").message == text


def test_a_message_is_one_line_of_bounded_length() -> None:
    error = error_of(status=500, body=status(message="line\n" * 10_000), request="get x")
    assert "\n" not in error.message
    assert len(error.message) <= 1024


BUDGET = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}


def test_a_429_of_a_disruption_budget_says_which() -> None:
    body = status(message="Cannot evict pod.", details={"causes": [{"reason": "Other"}, BUDGET]})
    error = error_of(status=429, body=body, request="create pods/eviction shop/web", retry_after="10")
    assert type(error) is DisruptionBudget
    assert (error.status, error.retry_after) == (429, 10.0)
    assert error.message == (
        "create pods/eviction shop/web: 429 Cannot evict pod. The disruption budget web needs 2 healthy pods"
    )


@pytest.mark.parametrize(
    "details",
    [
        None,
        {},
        {"causes": None},
        {"causes": [{"reason": "Other"}]},
        {"causes": 7},
        [BUDGET],
        "DisruptionBudget",
    ],
)
def test_a_429_without_that_cause_is_of_the_server(details: object) -> None:
    body = status(message="try again later", details=details)
    error = error_of(status=429, body=body, request="create pods/eviction shop/web")
    assert type(error) is TooManyRequests
    assert error.message == "create pods/eviction shop/web: 429 try again later"


def test_the_cause_of_another_status_means_nothing() -> None:
    error = error_of(status=409, body=status(details={"causes": [BUDGET]}), request="patch nodes w1")
    assert type(error) is Conflict


def test_a_403_names_the_missing_permission_and_the_rule() -> None:
    error = error_of(status=403, body=status(message=FORBIDDEN), request="patch nodes/status w1")
    assert isinstance(error, Forbidden)
    assert error.permission == Permission(
        verb="patch",
        resource="nodes/status",
        group="",
        namespace=None,
        user="system:serviceaccount:winpool-system:winpool",
    )
    assert explain(error) == (
        "system:serviceaccount:winpool-system:winpool may not patch nodes/status in the whole cluster."
        ' Add the rule {apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"]}'
        " to a ClusterRole that is bound to it."
    )


def test_a_403_in_a_namespace_asks_for_a_role_there() -> None:
    message = (
        'events.events.k8s.io is forbidden: User "u" cannot create resource "events"'
        ' in API group "events.k8s.io" in the namespace "default"'
    )
    error = error_of(status=403, body=status(message=message), request="create events")
    assert isinstance(error, Forbidden)
    assert explain(error) == (
        "u may not create events.events.k8s.io in namespace default. Add the rule"
        ' {apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create"]}'
        " to a Role in namespace default that is bound to it."
    )


def test_a_403_that_is_not_from_rbac_keeps_the_servers_words() -> None:
    message = 'nodes "w1" is forbidden: ValidatingAdmissionPolicy "fence" denied request: not yours'
    error = error_of(status=403, body=status(message=message), request="patch nodes w1")
    assert isinstance(error, Forbidden)
    assert error.permission is None
    assert explain(error) == f"patch nodes w1: 403 {message}"


def test_permissions_of_odd_sentences_are_not_guessed() -> None:
    assert parse_permission("") is None
    assert parse_permission('User "u" cannot get path "/metrics"') is None


def test_a_rule_is_written_as_a_role_takes_it() -> None:
    permission = Permission(
        verb="patch", resource="windowsnodepools/status", group="winpool.dev", namespace=None, user="u"
    )
    assert rule_text(permission) == (
        '{apiGroups: ["winpool.dev"], resources: ["windowsnodepools/status"], verbs: ["patch"]}'
    )


NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("1", 1.0),
        (" 30 ", 30.0),
        ("0", 0.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("Sun, 01 Nov 2026 12:01:00 GMT", 60.0),
        ("Sun, 01 Nov 2026 11:00:00 GMT", 0.0),
        ("²", None),
        ("9" * 5000, 86_400.0),
        ("86401", 86_400.0),
        ("Sun, 01 Nov 9999 12:00:00 GMT", 86_400.0),
        ("Sun, 01 Nov 99999999999999999999 12:00:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 86_400.0),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now=lambda: NOON) == seconds


@given(
    st.text(max_size=60)
    | st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,12} (Jan|Nov|Dec) [0-9]{1,24} [0-9]{1,9}:[0-9]{1,2}:[0-9]{1,2}"
        r" ([+-]?[0-9]{1,9}|GMT)",
        fullmatch=True,
    )
)
def test_whatever_retry_after_says_it_is_a_time_within_a_day(value: str) -> None:
    seconds = parse_retry_after(value, now=lambda: NOON)
    assert seconds is None or 0 <= seconds <= 86_400


def test_an_answer_nested_beyond_reason_is_still_an_error_of_its_status() -> None:
    body = b'{"kind":"Status","details":' + b"[" * 200_000
    error = error_of(status=503, body=body, request="list nodes")
    assert type(error) is Unavailable
    assert error.message == "list nodes: 503 no explanation given"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot reach https://u:s3cret@host:1/x", "cannot reach https://host:1/x"),
        ("https://s3cret@host", "https://host"),
        ("https://u:s3/cr@et@host twice https://u:s3cret@host", "https://host twice https://host"),
        ("mail a@b at https://host", "mail a@b at https://host"),
    ],
)
def test_no_message_shows_the_password_of_a_url(text: str, shown: str) -> None:
    assert ApiError(text).message == shown
    assert str(ApiError(text)) == shown


def test_retry_after_reaches_the_error() -> None:
    error = error_of(status=429, body=b"", request="list nodes", retry_after="7")
    assert error.retry_after == 7.0
    now = datetime.now(UTC)
    later = (now + timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    told = error_of(status=503, body=b"", request="list nodes", retry_after=later).retry_after
    assert told is not None
    assert 3500 < told <= 3600


@given(st.text() | NASTY)
def test_what_a_server_says_is_printable_wherever_it_is_shown(text: str) -> None:
    error = error_of(status=500, body=status(message=text), request="list nodes")
    assert error.message.isprintable()
    assert str(error) == error.message
    assert CredentialsError(text).message.isprintable()


# What a webhook or policy quotes

OURS = (
    'nodes "w1" is forbidden: User "system:serviceaccount:winpool-system:winpool" cannot patch'
    ' resource "nodes" in API group "" at the cluster scope'
)


@pytest.mark.parametrize(
    "denial",
    [
        'admission webhook "no.example.com" denied the request: ',
        "nodes \"w1\" is forbidden: ValidatingAdmissionPolicy 'fence' with binding 'b' denied request: ",
    ],
)
def test_a_sentence_of_rbac_that_admission_quotes_is_no_missing_permission(denial: str) -> None:
    error = error_of(status=403, body=status(message=denial + OURS), request="patch nodes w1", group="")
    assert isinstance(error, Forbidden)
    assert error.permission is None
    assert is_of_one_object(error)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ('resource "nodes"', 'resource "*"'),
        ('resource "nodes"', 'resource "secrets"'),
        ("cannot patch", "cannot delete"),
        ("cannot patch", "cannot *"),
        ('API group ""', 'API group "*"'),
    ],
)
def test_only_the_permission_for_the_request_itself_is_missing(ours: str, theirs: str) -> None:
    found = error_of(status=403, body=status(message=OURS), request="patch nodes w1", group="")
    assert isinstance(found, Forbidden)
    assert found.permission is not None
    message = OURS.replace(ours, theirs)
    other = error_of(status=403, body=status(message=message), request="patch nodes w1", group="")
    assert isinstance(other, Forbidden)
    assert other.permission is None


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/api/v1/nodes/w1", ""),
        ("/apis/winpool.dev/v1alpha1/windowsnodepools?limit=5", "winpool.dev"),
        ("/version", ""),
    ],
)
def test_a_request_knows_its_group(path: str, group: str) -> None:
    assert Request(verb="get", resource="r", path=path).group == group


# Secrets that others quote

SECRET = "S3cret-Passw0rd"
LEAKS = [
    f"cannot reach https://svc:{SECRET}@proxy:3128/x",
    f"cannot reach //svc:{SECRET}@proxy:3128/x",
    f"cannot reach https://proxy:3128/x?a=b&token={SECRET}&c=d",
    f"cannot reach https://proxy:3128/x?access_token={SECRET}",
    f"cannot reach https://proxy:3128/x?sig={SECRET}#f",
    f"sent Authorization: Bearer {SECRET} to it",
]


def shows(text: str) -> bool:
    return any(SECRET[at : at + 4] in text for at in range(len(SECRET) - 3))


@pytest.mark.slow
@pytest.mark.parametrize("text", LEAKS)
def test_no_cut_of_a_message_shows_four_characters_of_a_secret(text: str) -> None:
    for end in range(len(text) + 1):
        assert not shows(ApiError(text[:end]).message), text[:end]
    for limit in (1024, 4096):
        for before in range(limit - len(text) - 40, limit + 1):
            said = f"{'x ' * (before // 2)}{text} and {'y ' * 9000}"
            for body in (status(message=said), said.encode()):
                message = error_of(status=502, body=body, request="list nodes").message
                assert not shows(message)
                assert len(message) <= 1024


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach https://10.0.0.1:6443/api",
        "https://host:6443: refused",
        "https://[::1]:6443/x",
        "a: //b/c",
    ],
)
def test_a_url_without_a_secret_is_shown_as_it_is(text: str) -> None:
    assert ApiError(text).message == text
