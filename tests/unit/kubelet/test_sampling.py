"""What the settings make of kubelets and data sources, and which files end the operator at its start."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Seconds
from harness.listener import an_authority
from winpool import app
from winpool.controllers.memory_polls import Connections
from winpool.kube.tokens import ReaderToken
from winpool.sampling import (
    SamplingError,
    addresses_of,
    kubelet_context,
    make_sampling,
    read_data_sources,
    service_of,
    token_of,
)
from winpool.settings import Settings
from winpool.support.data import DataError

SECRET = "hunter2"


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(DataError) as raised:
        read_data_sources(text, monotonic=Seconds())
    return raised.value.problems


def fault(**fields: object) -> str:
    """Return the one fault of a data source with these fields."""
    told = {"name": "main", "url": "https://prometheus:9090"} | fields
    lines = "\n".join(f"  {name}: {value}" for name, value in told.items())
    [found] = faults(f"dataSources:\n-{lines[1:]}\n")
    return found.removeprefix("dataSources[0].")


async def test_the_api_server_is_known_by_each_of_its_urls_and_one_that_is_not_resolved_hides_no_other() -> (
    None
):
    known = await addresses_of(
        "https://127.0.0.1:6443", "https://no.such.host.invalid:443", "https://[fd00::1]"
    )
    assert known == {(ip_address("127.0.0.1"), 6443), (ip_address("fd00::1"), 443)}


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("10.96.0.1", "443", "https://10.96.0.1"),
        ("fd00::1", "6443", "https://[fd00::1]:6443"),
    ],
)
def test_a_pod_has_the_address_of_the_api_server_in_its_environment(host: str, port: str, url: str) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    assert service_of(environment) == (url,)
    assert service_of({}) == ()
    assert service_of({"KUBERNETES_SERVICE_HOST": host}) == ()
    assert service_of(environment | {"KUBERNETES_SERVICE_PORT": "tcp://10.96.0.1:443"}) == ()


def connected(settings: Settings, *, close: Callable[[], Awaitable[None]] | None = None) -> Connections:
    token = cast(ReaderToken, SimpleNamespace(close=close))
    return make_sampling(settings, monotonic=Seconds())(token, frozenset())


def test_by_default_kubelets_need_a_certificate_of_the_systems_cas() -> None:
    context = kubelet_context(Settings(), monotonic=Seconds())
    assert context().verify_mode is ssl.CERT_REQUIRED
    assert context() is context()
    found = connected(Settings())
    assert (found.rules.allowed, dict(found.data_sources)) == ((), {})


def test_a_ca_of_kubelets_is_the_only_one_that_is_trusted(tmp_path: Path) -> None:
    ca = an_authority(tmp_path, "kubelets").paths.certificate
    context = kubelet_context(Settings(kubelet_ca_file=ca), monotonic=Seconds())()
    assert context.verify_mode is ssl.CERT_REQUIRED
    [trusted] = context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "kubelets"),),)


def test_kubelets_that_are_not_verified_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    context = kubelet_context(Settings(kubelet_insecure_tls=True), monotonic=Seconds())
    assert context().verify_mode is ssl.CERT_NONE
    assert [each.getMessage().split(":")[0] for each in caplog.records] == ["--kubelet-insecure-tls is set"]


def test_ranges_are_read_as_networks() -> None:
    settings = Settings(kubelet_address_ranges="127.0.0.0/8, ::1/128,,fe80::/10")
    found = connected(settings).rules.allowed
    assert [str(each) for each in found] == ["127.0.0.0/8", "::1/128", "fe80::/10"]


def test_data_sources_are_known_by_their_names(tmp_path: Path) -> None:
    ca = an_authority(tmp_path, "ca").paths.certificate
    token = tmp_path / "token"
    token.write_text(SECRET)
    file = tmp_path / "sources.yaml"
    file.write_text(
        f"dataSources:\n"
        f"- {{name: main, url: 'https://prometheus:9090/tenant', caFile: {ca}, tokenFile: {token}, "
        "scrapeIntervalSeconds: 15}\n"
        "- {name: team-b, url: 'http://10.0.0.9:9090'}\n"
    )
    found = connected(Settings(data_sources_file=file)).data_sources
    assert {name: each.scrape_interval_seconds for name, each in found.items()} == {"main": 15, "team-b": 60}
    assert list(found) == ["main", "team-b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a map, not nothing"),
        ("{}", "missing required field `dataSources`"),
        ("[]", "must be a map, not a list"),
        ("dataSources: [", "line 1"),
        ("dataSources: {name: main}", "dataSources: must be a list, not a map"),
        ("sources: []", "unknown field `sources`"),
        ("dataSources: [{name: main}]", "missing required field `url`"),
        ("dataSources: [{name: main, url: 'https://p', token: x}]", "unknown field `token`"),
        ("dataSources: [{name: main, url: 'https://p', scrapeIntervalSeconds: 30s}]", "a whole number"),
        ("dataSources: [{name: main, url: 'https://p', matchers: windows-exporter}]", "must be a map"),
        ("dataSources: [{name: main, url: 'https://p', matchers: [job]}]", "must be a map"),
        ("dataSources: [{name: main, url: 'https://p', matchers: {job: 5}}]", "must be a text"),
        ("dataSources: [{name: main, url: 'https://p', matchers: {job: [a, b]}}]", "must be a text"),
        ("dataSources: [{name: main, url: 'https://p', matchers: }]", "must be a map"),
        ("dataSources: [{name: main, url: 'https://p', matchers: {job: a, job: b}}]", "is there twice"),
    ],
)
def test_a_file_of_another_shape_is_refused_with_the_place(text: str, said: str) -> None:
    [found] = faults(text)
    assert said in found


def test_each_fault_of_a_data_source_is_told(tmp_path: Path) -> None:
    assert fault(name="Main") == (
        "name: it must be at most 63 lowercase letters, digits and '-', as pools write it"
    )
    assert fault(url="prometheus:9090").startswith("url: it is not a URL; write it like https://")
    assert fault(url="'https://p/?q=1'").startswith("url: it has a query or a fragment")
    assert fault(scrapeIntervalSeconds=0) == "scrapeIntervalSeconds: it must be from 1 to 120"
    assert fault(scrapeIntervalSeconds=121) == "scrapeIntervalSeconds: it must be from 1 to 120"
    assert fault(tokenFile="/no/token") == (
        "tokenFile: the file /no/token cannot be read: No such file or directory"
    )
    assert fault(caFile="/no/ca") == "caFile: the CA file /no/ca cannot be read: No such file or directory"
    ca = an_authority(tmp_path, "ca").paths.certificate
    assert fault(url="http://p", caFile=ca) == (
        "caFile: it is for HTTPS only; write https:// in url, or remove caFile"
    )
    assert fault(url="http://p", tokenFile=ca).startswith("url: a token or a password is sent by HTTPS only")
    basic = f"{{username: a, passwordFile: {ca}}}"
    assert fault(url="http://p", basicAuth=basic).startswith("url: a token or a password is sent by HTTPS")
    assert fault(tokenFile=ca, basicAuth=basic).startswith("basicAuth: there is a tokenFile, too")
    assert fault(basicAuth="{username: a, passwordFile: /no/p}").startswith(
        "basicAuth.passwordFile: the file /no/p"
    )
    assert fault(basicAuth=f"{{username: 'a:b', passwordFile: {ca}}}").startswith(
        "basicAuth.username: it must be"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "a"), ("authorization", "Bearer a"), ("Transfer-Encoding", "chunked"), ("A b", "c"), ("", "a")]
    + [("X-Scope-OrgID", value) for value in ("", "a\\r\\nHost: b", "\u00e4", "x" * 1025)],
)
def test_a_header_that_is_not_that_of_a_tenant_is_refused(name: str, value: str) -> None:
    found = fault(headers=f'{{"{name}": "{value}"}}')
    assert found.startswith("headers: ")
    assert "cannot be set" in found or "printable ASCII" in found


def test_matchers_that_match_nothing_or_everything_are_refused_by_name() -> None:
    assert fault(matchers="{}") == (
        "matchers: it is empty, so series of every job would be believed; write {job: windows-exporter}"
    )
    assert fault(matchers="{'job=\"x\"} or up': a}").startswith(
        "matchers: 'job=\"x\"} or up' is not the name of a label"
    )
    assert (
        fault(matchers="{job: ''}") == "matchers: the value of 'job' must have 1 to 128 printable characters"
    )


def test_every_fault_of_a_file_is_told_at_once() -> None:
    text = "dataSources:\n- {name: A, url: nothing}\n- {name: b, url: 'https://b'}\n- {name: b, url: 'https://c'}"
    assert [each.split(": ")[0] for each in faults(text)] == [
        "dataSources[0].name",
        "dataSources[0].url",
        "dataSources[2].name",
    ]


def test_more_data_sources_than_are_possible_are_refused() -> None:
    told = "".join(f"- {{name: s{number}, url: 'https://p'}}\n" for number in range(17))
    assert faults(f"dataSources:\n{told}") == ("dataSources: there are 17, and at most 16 are possible",)


@pytest.mark.parametrize(
    "source",
    [
        f"{{name: main, url: 'https://admin:{SECRET}@prometheus:9090'}}",
        f"{{name: main, url: 'https://admin:{SECRET}@[prometheus'}}",
        f"{{name: main, url: 'https://p', 'https://admin:{SECRET}@p': x}}",
        f"{{name: main, url: !https://admin:{SECRET}@p }}",
    ],
)
def test_a_password_in_a_url_is_never_shown(tmp_path: Path, source: str) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text(f"dataSources: [{source}]")
    with pytest.raises(SamplingError) as raised:
        make_sampling(Settings(data_sources_file=file), monotonic=Seconds())
    assert str(raised.value).startswith(f"--data-sources-file {file}: ")
    assert SECRET not in str(raised.value)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(DataError):
        assert read_data_sources(text, monotonic=Seconds()) == {}


@pytest.mark.parametrize("content", [None, b"\xff", b"dataSources: [{}]"], ids=["absent", "bytes", "empty"])
async def test_a_file_that_cannot_be_used_ends_the_operator_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    file = tmp_path / "sources.yaml"
    if content is not None:
        file.write_bytes(content)
    assert await app.run(Settings(data_sources_file=file)) == 1
    [line] = caplog.records
    assert line.getMessage().startswith(f"--data-sources-file {file}: ")
    assert line.exc_info is None


async def test_a_ca_that_cannot_be_used_ends_the_operator_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await app.run(Settings(kubelet_ca_file=Path("/no/ca.crt"))) == 1
    assert [each.getMessage() for each in caplog.records] == [
        "--kubelet-ca-file: the CA file /no/ca.crt cannot be read: No such file or directory"
    ]


async def test_what_polls_kubelets_ends_the_request_for_their_token() -> None:
    closed = list[str]()

    async def close() -> None:
        closed.append("token")

    await connected(Settings(), close=close).close()
    assert closed == ["token"]


async def test_the_token_of_a_data_source_is_that_of_its_file_and_one_line_tells_that_there_is_none(
    tmp_path: Path, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    token = token_of(path, monotonic=clock)
    assert [await token(), await token()] == [None, None]
    path.write_text("s3cret\n")
    assert await token() == "s3cret"
    path.unlink()
    clock.now += 10
    assert await token() == "s3cret"
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 2, "once before it could be read, and once after"
    assert all(str(path) in each for each in told)
    assert "s3cret" not in "".join(told)
