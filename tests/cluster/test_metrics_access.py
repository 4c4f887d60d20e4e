"""Who may read /metrics, by the rights that a real API server knows, and HTTPS with renewed files."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.door import a_transport
from harness.certificates import a_mount
from harness.clock import Seconds
from harness.manifests import DEPLOY
from harness.operator import USER, Operator
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from testbed.signing import VALIDITY
from winpool.kube.tokens import OF_ADDRESS_BURST, OF_ADDRESS_PER_SECOND, Reviews
from winpool.serve.access import PERMITTED_SECONDS, Access

READER = "winpool-metrics-reader"
"""The ClusterRole of deploy/operator."""
SPACE = "default"


REVIEWS = DEPLOY / "components" / "metrics-tls" / "metrics-auth.yaml"


@pytest.fixture(scope="module", autouse=True)
def reviewing(testbed: Testbed) -> Iterator[None]:
    """Give the operator the right to review tokens, as the component does that makes it ask for them."""

    def may() -> bool:
        resource = "tokenreviews.authentication.k8s.io"
        asked = testbed.kubectl("auth", "can-i", "create", resource, "--as", USER, check=False)
        return asked.stdout.strip().endswith("yes")

    testbed.kubectl("apply", "-f", str(REVIEWS))
    try:
        eventually(may, what="the right is known")
        yield
    finally:
        testbed.kubectl("delete", "-f", str(REVIEWS))
        eventually(lambda: not may(), what="the right is gone")


@dataclass(frozen=True)
class Scraper:
    """A ServiceAccount and its token."""

    world: World
    name: str

    def token(self, *arguments: str) -> str:
        return self.world.kubectl("create", "token", self.name, "-n", SPACE, *arguments).strip()

    def bind(self) -> None:
        """Give it the right."""
        bound = (f"--clusterrole={READER}", f"--serviceaccount={SPACE}:{self.name}")
        self.world.kubectl("create", "clusterrolebinding", self.name, *bound)

    def unbind(self) -> None:
        """Take the right away."""
        self.world.kubectl("delete", "clusterrolebinding", self.name, "--ignore-not-found")

    def may(self) -> bool:
        """Whether the API server knows of the right."""
        user = f"system:serviceaccount:{SPACE}:{self.name}"
        return self.world.kubectl("auth", "can-i", "get", "/metrics", "--as", user, check=False).startswith(
            "yes"
        )


@pytest.fixture
def make_scraper(world: World) -> Iterator[Callable[[str], Scraper]]:
    """Return what makes a ServiceAccount; those that were made are removed."""
    made: list[Scraper] = []

    def make(name: str) -> Scraper:
        scraper = Scraper(world, f"{name}-{world.suffix}")
        world.kubectl("create", "serviceaccount", scraper.name, "-n", SPACE)
        made.append(scraper)
        return scraper

    yield make
    for scraper in made:
        scraper.unbind()
        world.kubectl("delete", "serviceaccount", scraper.name, "-n", SPACE)


@pytest.fixture
def reader(make_scraper: Callable[[str], Scraper]) -> Scraper:
    """A scraper with the right, of which the API server knows."""
    scraper = make_scraper("reader")
    scraper.bind()
    eventually(scraper.may, what="the right is known")
    return scraper


@contextmanager
def an_operator(world: World, **settings: str) -> Iterator[Operator]:
    """Start an operator that asks for tokens, and logs all that it can."""
    operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "access.log",
        environment={"WINPOOL_METRICS_AUTH": "token", "WINPOOL_LOG_LEVEL": "debug", **settings},
    )
    try:
        operator.start(wait=False)
        yield operator
    finally:
        operator.close()


def port_of(operator: Operator) -> int:
    """Return the port of the metrics as soon as the log names it."""
    return eventually(operator._port, what="it serves") or 0


def scrape(
    port: int, *, token: str | None = None, trust: ssl.SSLContext | None = None, path: str = "/metrics"
) -> tuple[int, str, Mapping[str, str]]:
    """Return status, text and header fields of an answer; status 0 where there is none."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    scheme = "http" if trust is None else "https"
    url = f"{scheme}://127.0.0.1:{port}{path}"
    asked = urllib.request.Request(url, headers=headers)  # noqa: S310 - one of these two
    try:
        with urllib.request.urlopen(asked, timeout=30, context=trust) as answer:  # noqa: S310 - the same
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)
    except OSError:
        return 0, "", {}


def reviews_of(world: World, since: datetime) -> dict[str, int]:
    """Return how many reviews of each kind the operator has asked for, by the audit log."""
    asked = [each.resource for each in world.requests(since=since) if each.verb == "create"]
    return {kind: asked.count(kind) for kind in ("tokenreviews", "subjectaccessreviews")}


def test_each_scraper_gets_what_its_token_is_worth_and_no_token_is_logged(
    world: World, make_scraper: Callable[[str], Scraper], reader: Scraper
) -> None:
    stranger = make_scraper("stranger")
    tokens = {
        "invalid": world.testbed.mint_token(lifetime_seconds=-3600),
        "elsewhere": reader.token("--audience=elsewhere.example.com"),
        "stranger": stranger.token(),
        "reader": reader.token(),
    }
    with an_operator(world) as operator:
        port = port_of(operator)
        status, text, headers = scrape(port)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "winpool_" not in text
        found = {name: scrape(port, token=token) for name, token in tokens.items()}
        statuses = {name: answer[0] for name, answer in found.items()}
        assert statuses == {"invalid": 401, "elsewhere": 401, "stranger": 403, "reader": 200}
        assert '{nonResourceURLs: ["/metrics"], verbs: ["get"]}' in found["stranger"][1]
        assert reader.name not in found["stranger"][1], "who has the right is not said"
        assert "winpool_build_info" in found["reader"][1]
        text = scrape(port, token=tokens["reader"])[1]
        counts = dict(re.findall(r'winpool_access_reviews_total\{result="(\w+)"\} (\S+)', text))
        assert counts == {
            "Permitted": "1.0",
            "Forbidden": "1.0",
            "Invalid": "2.0",
            "Failed": "0.0",
            "RateLimited": "0.0",
        }
        eventually(operator.ready, what="ready, without a token")
        assert operator.get("/healthz")[0] == 200
        assert operator.stop() == 0
    log = operator.log_text()
    assert [name for name, token in tokens.items() if token in log] == []
    assert "eyJ" not in log
    warnings = [str(line["message"]) for line in operator.log_lines() if line.get("level") == "WARNING"]
    assert [each for each in warnings if "has no TLS" in each]


def test_scrapes_cost_one_review_and_a_flood_of_tokens_few_and_delays_no_one(
    world: World, reader: Scraper
) -> None:
    token = reader.token()
    with an_operator(world) as operator:
        port = port_of(operator)
        since, started = world.now(), time.monotonic()
        assert [scrape(port, token=token)[0] for _ in range(20)] == [200] * 20
        more = int((time.monotonic() - started) / PERMITTED_SECONDS)  # where the machine is slow
        found = reviews_of(world, since)
        assert 1 <= found["tokenreviews"] == found["subjectaccessreviews"] <= 1 + more

        since, started = world.now(), time.monotonic()
        invented = [scrape(port, token=f"invented-{number}")[0] for number in range(60)]
        assert {401} <= set(invented) <= {401, 429}
        assert scrape(port, token=token)[0] == 200
        most = OF_ADDRESS_BURST + (time.monotonic() - started + 1) * OF_ADDRESS_PER_SECOND
        found = reviews_of(world, since)
        assert invented.count(401) <= most
        assert invented.count(401) <= found["tokenreviews"] <= most + 1


@pytest.mark.nightly
async def test_a_right_that_is_removed_ends_with_the_permission_in_memory(
    world: World, reader: Scraper
) -> None:
    """The same parts as in the operator, on a clock of the test."""
    clock, token = Seconds(), await asyncio.to_thread(reader.token)
    async with a_transport(world.testbed.kubeconfig("winpool")) as transport:
        access = Access(
            Reviews(transport, path="/metrics", monotonic=clock).review,
            path="/metrics",
            role="winpool-metrics-reader",
            monotonic=clock,
        )
        assert await access.result(token, address="") == "Permitted"
        await asyncio.to_thread(reader.unbind)
        await asyncio.to_thread(eventually, lambda: not reader.may(), what="the right is gone")
        assert await access.result(token, address="") == "Permitted"
        clock.now += PERMITTED_SECONDS
        assert await access.result(token, address="") == "Forbidden"

        await asyncio.to_thread(reader.bind)
        await asyncio.to_thread(eventually, reader.may, what="the right is back")
        clock.now += PERMITTED_SECONDS
        assert await access.result(token, address="") == "Permitted"
        world.kubectl("delete", "serviceaccount", reader.name, "-n", SPACE)
        world.kubectl("create", "serviceaccount", reader.name, "-n", SPACE)
        results = []

        async def again() -> str:
            clock.now += PERMITTED_SECONDS
            results.append(await access.result(token, address=""))
            return results[-1]

        # The API server itself uses what it knows of a token for some seconds.
        async with asyncio.timeout(60):
            while await again() != "Invalid":  # noqa: ASYNC110 - a cluster sets no asyncio.Event
                await asyncio.sleep(0.5)
        assert set(results) <= {"Permitted", "Invalid"}, "the account of that name is another one"


async def test_an_operator_without_the_right_to_ask_permits_no_one_and_names_the_rule(
    world: World, reader: Scraper, caplog: pytest.LogCaptureFixture
) -> None:
    clock, token = Seconds(), await asyncio.to_thread(reader.token)
    kubeconfig = await asyncio.to_thread(world.testbed.user_kubeconfig, f"nobody-{world.suffix}")
    async with a_transport(kubeconfig) as transport:
        access = Access(
            Reviews(transport, path="/metrics", monotonic=clock).review,
            path="/metrics",
            role="winpool-metrics-reader",
            monotonic=clock,
        )
        assert await access.result(token, address="") == "Failed"
    said = [each.getMessage() for each in caplog.records]
    rule = '{apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"]}'
    assert [text for text in said if rule in text]
    assert [text for text in said if token in text] == []


@pytest.mark.nightly
def test_by_https_and_with_a_certificate_that_is_renewed_while_it_runs(
    world: World, reader: Scraper, tmp_path: Path
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    mounted, token = a_mount(tmp_path / "pki", now=now), reader.token()
    settings = {
        "WINPOOL_TLS_CERT_FILE": str(mounted.files.certificate),
        "WINPOOL_TLS_KEY_FILE": str(mounted.files.key),
        "WINPOOL_HEALTH_PORT": "0",
    }
    trust = mounted.trust()

    def expiry() -> float | None:
        text = scrape(port, token=token, trust=trust)[1]
        found = re.search(r"^winpool_tls_certificate_expiry_timestamp_seconds (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else None

    with an_operator(world, **settings) as operator:
        port = port_of(operator)
        health = re.search(r"health on port (\d+)", operator.log_text())
        assert health, operator.log_text()
        assert scrape(port, trust=trust)[0] == 401
        assert scrape(port, token=token, trust=trust)[0] == 200
        assert scrape(port, token=token)[0] == 0, "plain HTTP gets no answer"
        assert scrape(int(health[1]), path="/healthz")[0] == 200
        eventually(lambda: scrape(int(health[1]), path="/readyz")[0] == 200, what="ready")
        assert expiry() == (now + VALIDITY).timestamp()

        later = now + timedelta(seconds=30)
        mounted.renew(now=later)
        eventually(lambda: expiry() == (later + VALIDITY).timestamp(), what="the new certificate")
        assert operator.stop(seconds=2) == 0
    told: list[dict[str, Any]] = [json.loads(line) for line in operator.log_text().splitlines()]
    assert [line for line in told if "files for TLS of /metrics have changed" in line["message"]]
    assert [line for line in told if line["level"] in ("WARNING", "ERROR")] == []
    assert "PRIVATE KEY" not in operator.log_text()
