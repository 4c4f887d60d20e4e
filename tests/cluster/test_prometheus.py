"""A real Prometheus that scrapes simulated nodes, and what the operator's client reads there."""

from __future__ import annotations

import asyncio
import signal
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from cluster.kubelets import GUARD_SECONDS, Kubelets, kubelets
from harness.serving import serving
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.prometheus_config import ScrapeJob
from testbed.prometheus_server import Prometheus
from testbed.waiting import wait_until
from testbed.winsim.endpoint.faults import FaultKind
from winpool.kubelet.exporter import DEFAULT_MATCHERS, Matchers, selector_of
from winpool.kubelet.prometheus import PrometheusClient, parse_url
from winpool.kubelet.samples import Outcome, PollError
from winpool.model.pressure import MemorySample

GIB: Final = 2**30
PAGE_FILE_BYTES: Final = 8 * GIB
RAM_BYTES: Final = {"w01": 16 * GIB, "w02": 32 * GIB}
SHORT_SECONDS: Final = 2.0
"""How long a client waits for a server that does not answer, in tests of such a server."""
OLD_SECONDS: Final = 3.0
"""A sample that is older has missed a scrape, of one in each second."""
AGAIN: Final = "again"
"""The namespace of a second scrape."""
FORGED: Final = 4096
"""What the forger says of every amount. No machine has so little."""
AMOUNTS: Final = {
    "commit_total": "windows_memory_committed_bytes",
    "commit_limit": "windows_memory_commit_limit",
    "physical_available": "windows_memory_available_bytes",
    "physical_total": "windows_memory_physical_total_bytes",
    "pool_nonpaged": "windows_memory_pool_nonpaged_bytes",
}
"""The fields of a sample, and what the exporter calls them."""
PAGED_POOL: Final = "windows_memory_pool_paged_bytes"
"""What the operator does not ask for, and what is next to a series that it does."""
SHOP: Final = ScrapeJob(name="shop", targets={}, node_label=None, labels={"namespace": "shop"})
"""Pods of people who have nothing to do with nodes."""
TRUSTING: Final = ScrapeJob(name="trusting", targets={}, node_label=None, honor_labels=True)
ODD: Final = ScrapeJob(name='a "b" \\ + {c}, {{}} % .* ü', targets={})
OTHERS: Final = (SHOP, TRUSTING, ODD)
RATES: Final = {
    "hard_reads_per_second": "windows_memory_swap_page_reads_total",
    "write_out_per_second": "windows_memory_swap_pages_written_total",
    "repurposed_per_second": "windows_memory_transition_pages_repurposed_total",
}


REST_SCRAPES: Final = 4
"""So many scrapes, of one machine or the other, say the same of a fleet at rest."""


@pytest.fixture(scope="module")
def served(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelets]:
    """Two machines that differ in their RAM, with room for a page storm in their page files."""
    sizes = ("--windows-memory=32Gi", "--windows-page-file=8Gi")
    with kubelets(testbed, tmp_path_factory.mktemp("kubelets"), *sizes) as found:
        yield found


@pytest.fixture(scope="module")
def server(served: Kubelets) -> Iterator[Prometheus]:
    with Prometheus(served.testbed, jobs=jobs(served)) as running:
        yield running
    layout = served.testbed.layout
    assert not layout.prometheus.exists()
    assert "Server is ready to receive web requests" in layout.log("prometheus").read_text()


@pytest.fixture
def prometheus(served: Kubelets, server: Prometheus) -> Prometheus:
    """The server, when it has scraped both nodes as they are now, with nothing wrong, and once each."""
    served.fleet.set_endpoint_fault("all", fault="none", endpoint="exporter")
    server.configure(jobs(served))
    names = {served.name_of(name) for name in RAM_BYTES}
    known = {node: taken_at(sample) for node, sample in samples(server).items()}

    def scraped_anew() -> bool:
        found = samples(server)
        return set(found) == names and all(taken_at(found[node]) > known.get(node, 0) for node in names)

    wait_for(scraped_anew, what="new samples of both nodes")
    return server


def jobs(
    served: Kubelets, *others: ScrapeJob, twice: Sequence[str] = (), label: str = "node"
) -> list[ScrapeJob]:
    """Scrape both nodes as the job windows-exporter, and some of them once more, in another namespace.

    A job is never left out: the series of a job that has gone end after five minutes only. So ``others`` are
    some of OTHERS with targets.
    """
    named = {each.name: each for each in (*OTHERS, *others)}
    return [
        *named.values(),
        ScrapeJob(
            name="windows-exporter",
            targets=served.exporters(*RAM_BYTES),
            node_label=label,
            labels={"namespace": "monitoring"},
        ),
        ScrapeJob(
            name="again",
            targets=served.exporters(*twice),
            node_label=label,
            labels={"job": "windows-exporter", "namespace": AGAIN},
        ),
    ]


def samples(
    prometheus: Prometheus,
    *,
    label: str = "node",
    matchers: Matchers = DEFAULT_MATCHERS,
    deadline: float = GUARD_SECONDS,
) -> dict[str, MemorySample]:
    """Ask as the operator does."""
    url = parse_url(prometheus.url, has_token=False)
    client = PrometheusClient(url, matchers=matchers, token=None, context=ssl.create_default_context)
    return asyncio.run(client.samples(label=label, deadline=deadline))


def taken_at(sample: MemorySample) -> float:
    assert sample.taken_at is not None
    return sample.taken_at


def age(sample: MemorySample) -> float:
    assert sample.age is not None
    return sample.age


def scrapes(prometheus: Prometheus, **labels: str) -> int:
    """Return how often there were series with these labels within the last five minutes, ended or not."""
    query = f"max(count_over_time(windows_memory_committed_bytes{selector_of(labels)}[5m]))"
    answer = urllib3.request("GET", f"{prometheus.url}/api/v1/query", fields={"query": query})
    found = answer.json()["data"]["result"]
    return int(found[0]["value"][1]) if found else 0


def wait_for(condition: Callable[[], bool], *, what: str) -> None:
    wait_until(condition, what=what, timeout_seconds=GUARD_SECONDS)


def told(served: Kubelets, name: str) -> dict[str, float]:
    """Return what the exporter of a node itself says, by the names of its series."""
    text = served.ask_exporter(name).body.decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("windows_memory_")
    }


def amounts(sample: MemorySample) -> dict[str, float | None]:
    return {field: getattr(sample, field) for field in AMOUNTS}


def amounts_told(served: Kubelets, name: str) -> dict[str, int | None]:
    truth = told(served, name)
    return {field: int(truth[series]) for field, series in AMOUNTS.items()}


def rates(sample: MemorySample) -> list[float | None]:
    return [getattr(sample, field) for field in RATES]


@contextmanager
def a_forger(*nodes: str, **labels: str) -> Iterator[str]:
    """Serve metrics like those of windows_exporter about these nodes; yield where, as ``address:port``."""
    text = "".join(
        f"{metric}{selector_of({**labels, 'node': node})} {FORGED}\n"
        for node in nodes
        for metric in (*AMOUNTS.values(), *RATES.values())
    ).encode()

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    with serving(server):
        yield f"127.0.0.1:{server.server_port}"


@contextmanager
def a_pod(served: Kubelets, name: str, *, workload: str) -> Iterator[None]:
    """Run a pod with this workload on a node."""
    api, pods = served.testbed.api(), "/api/v1/namespaces/default/pods"
    pod = f"shop-{uuid.uuid4().hex[:8]}"
    api.create(pods, _pod(pod, node=served.name_of(name), workload=workload))
    try:
        yield
    finally:
        api.delete(f"{pods}/{pod}")
        # Its memory is free then.
        wait_for(
            lambda: api.get(pods, fieldSelector=f"metadata.name={pod}")["items"] == [],
            what="the end of the pod",
        )


def _pod(name: str, *, node: str, workload: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"winsim/memory": workload}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "app", "image": "registry.example/shop:1"}],
        },
    }


def test_each_node_has_the_numbers_of_its_own_machine(served: Kubelets, prometheus: Prometheus) -> None:
    leaking = served.name_of("w02")
    # So that the two pools are not equal, as they are on a machine that has just started.
    served.fleet.lose_memory([leaking], growth_per_minute="2Gi")
    wait_for(
        lambda: told(served, "w02")[AMOUNTS["pool_nonpaged"]] > told(served, "w02")[PAGED_POOL],
        what="a leak into the non-paged pool",
    )
    served.fleet.set_endpoint_fault("all", fault="frozen", endpoint="exporter")
    truths = {served.name_of(name): amounts_told(served, name) for name in RAM_BYTES}
    wait_for(
        lambda: {node: amounts(sample) for node, sample in samples(prometheus).items()} == truths,
        what="the numbers of both machines",
    )
    for name, ram_bytes in RAM_BYTES.items():
        node = served.name_of(name)
        sample = samples(prometheus)[node]
        assert sample.physical_total == ram_bytes
        assert sample.commit_limit == ram_bytes + PAGE_FILE_BYTES
    served.fleet.replace([leaking])
    served.fleet.wait_ready([leaking])


@pytest.mark.nightly
def test_what_a_pod_commits_is_in_the_sample_of_its_node(served: Kubelets, prometheus: Prometheus) -> None:
    def committed(name: str) -> float:
        found = samples(prometheus)[served.name_of(name)].commit_total
        assert found is not None
        return found

    # The test before may have had a pod end, or a machine replaced, since the last scrape.
    seen: dict[tuple[float, ...], tuple[float, ...]] = {}

    def are_at_rest() -> bool:
        found = [samples(prometheus)[served.name_of(name)] for name in RAM_BYTES]
        seen[tuple(map(taken_at, found))] = tuple(each.commit_total or 0.0 for each in found)
        return len(seen) > REST_SCRAPES and len(set(list(seen.values())[-REST_SCRAPES:])) == 1

    wait_for(are_at_rest, what="scrapes that say the same of both machines")
    before, other = committed("w01"), committed("w02")
    with a_pod(served, "w01", workload='{"workload": "steady", "commit": "3Gi"}'):
        wait_for(lambda: committed("w01") == before + 3 * GIB, what="the pod's 3 GiB")
        assert committed("w02") == other


def test_the_age_of_a_sample_is_the_time_since_its_scrape(served: Kubelets, prometheus: Prometheus) -> None:
    node = served.name_of("w01")
    first = samples(prometheus)[node]
    assert 0 <= age(first) < GUARD_SECONDS
    wait_for(lambda: taken_at(samples(prometheus)[node]) > taken_at(first), what="another scrape")


def test_a_node_that_no_job_scrapes_any_more_grows_old(prometheus: Prometheus, served: Kubelets) -> None:
    node = served.name_of("w01")
    prometheus.configure(OTHERS)
    wait_for(lambda: age(samples(prometheus)[node]) > OLD_SECONDS, what="a sample that is old")
    old = samples(prometheus)[node]
    wait_for(lambda: age(samples(prometheus)[node]) > age(old) + 1, what="the same a second later")
    older = samples(prometheus)[node]
    assert older.taken_at == old.taken_at


@pytest.mark.parametrize("fault", ["hang", "server_error", "garbage"])
def test_a_node_whose_exporter_gives_no_numbers_has_no_sample_until_it_does(
    served: Kubelets, prometheus: Prometheus, fault: FaultKind
) -> None:
    """Prometheus ends the series of a target with its first scrape that fails; nothing of it grows old."""
    silent, other = served.name_of("w01"), served.name_of("w02")
    served.fleet.set_endpoint_fault([silent], fault=fault, endpoint="exporter")
    wait_for(lambda: silent not in samples(prometheus), what="the sample to be gone")
    assert other in samples(prometheus)
    served.fleet.set_endpoint_fault([silent], fault="none", endpoint="exporter")
    wait_for(lambda: silent in samples(prometheus), what="a sample again")


@pytest.mark.parametrize("fault", ["zeros", "nan", "overflow"])
def test_numbers_that_cannot_be_are_unknown(
    served: Kubelets, prometheus: Prometheus, fault: FaultKind
) -> None:
    node = served.name_of("w01")
    served.fleet.set_endpoint_fault([node], fault=fault, endpoint="exporter")
    wait_for(
        lambda: set(amounts(samples(prometheus)[node]).values()) == {None}, what="amounts that are unknown"
    )
    assert samples(prometheus)[served.name_of("w02")].commit_total is not None


@pytest.mark.nightly
def test_a_node_that_is_scraped_twice_under_the_same_job_is_unknown(
    served: Kubelets, prometheus: Prometheus
) -> None:
    twice, once = served.name_of("w01"), served.name_of("w02")
    prometheus.configure(jobs(served, twice=["w01"]))
    wait_for(lambda: set(samples(prometheus)) == {once}, what="no sample of the node with two")
    # From the second scrape on they have a rate.
    wait_for(lambda: scrapes(prometheus, namespace=AGAIN) >= 2, what="a second scrape")
    # Who scrapes it twice, the namespace says.
    ours = {"job": "windows-exporter", "namespace": "monitoring"}
    assert set(samples(prometheus, matchers=ours)) == {once, twice}
    prometheus.configure(jobs(served))
    wait_for(lambda: set(samples(prometheus)) == {once, twice}, what="a sample of each node")
    # The series that have ended are still in the five minutes that the rates look back on.
    assert scrapes(prometheus, namespace=AGAIN) >= 2
    assert None not in rates(samples(prometheus)[twice])


@pytest.mark.nightly
def test_series_of_another_job_are_not_believed_and_blind_nobody(
    served: Kubelets, prometheus: Prometheus
) -> None:
    """Everyone whose pods are scraped chooses their metrics, and each label that the target does not have."""
    victim, other = served.name_of("w01"), served.name_of("w02")
    with a_forger(victim, "w-invented", job="windows-exporter", namespace="monitoring") as forger:
        prometheus.configure(jobs(served, replace(SHOP, targets={victim: forger})))
        wait_for(
            lambda: set(samples(prometheus, matchers={"job": "shop"})) == {victim, "w-invented"},
            what="what the forger says, for one who asks for its job",
        )
        assert samples(prometheus, matchers={"job": "shop"})[victim].commit_total == FORGED
        wait_for(lambda: scrapes(prometheus, job="shop") >= 2, what="rates of the forger")
        found = samples(prometheus)
        assert set(found) == {victim, other}
        for sample in found.values():
            assert FORGED not in amounts(sample).values()
            assert None not in (*amounts(sample).values(), *rates(sample))
    prometheus.configure(jobs(served))
    wait_for(
        lambda: samples(prometheus, matchers={"job": "shop"}) == {}, what="the end of the forger's series"
    )


def test_a_job_whose_own_labels_are_honoured_can_still_blind_a_node(
    served: Kubelets, prometheus: Prometheus
) -> None:
    """No matcher helps against it: with ``honor_labels`` all labels are those of the forger."""
    victim, other = served.name_of("w01"), served.name_of("w02")
    with a_forger(victim, job="windows-exporter", namespace="monitoring") as forger:
        prometheus.configure(jobs(served, replace(TRUSTING, targets={victim: forger})))
        wait_for(lambda: set(samples(prometheus)) == {other}, what="a node that is unknown")
    prometheus.configure(jobs(served))
    wait_for(lambda: set(samples(prometheus)) == {victim, other}, what="both nodes")


def test_a_matcher_may_have_any_characters(served: Kubelets, prometheus: Prometheus) -> None:
    name = ODD.name
    prometheus.configure(jobs(served, replace(ODD, targets=served.exporters("w01"))))
    wait_for(
        lambda: set(samples(prometheus, matchers={"job": name})) == {served.name_of("w01")},
        what="samples of the odd job",
    )
    assert samples(prometheus, matchers={"job": name[:-1] + "."}) == {}
    prometheus.configure(jobs(served))


def test_a_label_that_the_series_do_not_have_gives_nothing(served: Kubelets, prometheus: Prometheus) -> None:
    assert samples(prometheus, label="nodename") == {}
    prometheus.configure(jobs(served, label="nodename"))
    names = {served.name_of(name) for name in RAM_BYTES}
    wait_for(lambda: set(samples(prometheus, label="nodename")) == names, what="samples by the other label")
    wait_for(lambda: samples(prometheus) == {}, what="no sample by the label of before")


def test_page_reads_have_the_rate_of_the_machine(served: Kubelets, prometheus: Prometheus) -> None:
    node = served.name_of("w02")
    wait_for(lambda: rates(samples(prometheus)[node]) == [0, 0, 0], what="rates of an idle machine")
    workload = '{"workload": "steady", "commit": "1Gi", "fileReadsPerSecond": 500}'
    with a_pod(served, "w02", workload=workload):

        def as_scripted() -> bool:
            reads, *paging = rates(samples(prometheus)[node])
            return paging == [0, 0] and reads == pytest.approx(500, rel=0.1)

        wait_for(as_scripted, what="500 page reads a second, and no paging")


@pytest.mark.nightly
def test_a_page_storm_shows_in_all_rates(served: Kubelets, prometheus: Prometheus) -> None:
    node = served.name_of("w01")

    def real_rates() -> list[float]:
        """Return what the exporter itself counts within a few seconds."""
        began, before = time.monotonic(), told(served, "w01")
        wait_for(lambda: time.monotonic() - began > 3, what="three seconds of a storm")
        after, passed = told(served, "w01"), time.monotonic() - began
        return [(after[series] - before[series]) / passed for series in RATES.values()]

    with a_pod(served, "w01", workload='{"workload": "pageStorm", "commit": "18Gi", "touchedPercent": 100}'):
        wait_for(
            lambda: all((rate or 0) > 1000 for rate in rates(samples(prometheus)[node])),
            what="thousands of pages that are read, written and repurposed in a second",
        )
        wait_for(
            lambda: rates(samples(prometheus)[node]) == pytest.approx(real_rates(), rel=0.5),
            what="the rates that the exporter counts",
        )
        available = samples(prometheus)[node].physical_available
        assert available is not None
        assert available < RAM_BYTES["w01"] * 0.05


def test_a_server_that_restarts_fails_queries_and_recovers(served: Kubelets, prometheus: Prometheus) -> None:
    names = {served.name_of(name) for name in RAM_BYTES}
    before = samples(prometheus)
    prometheus.component.kill(signal.SIGTERM)
    with pytest.raises(PollError) as refused:
        samples(prometheus)
    assert refused.value.outcome is Outcome.NO_CONNECTION
    prometheus.component.start()
    outcomes: set[Outcome] = set()

    def scraped_anew() -> bool:
        try:
            found = samples(prometheus)
        except PollError as error:
            outcomes.add(error.outcome)
            return False
        return set(found) == names and all(taken_at(found[name]) > taken_at(before[name]) for name in names)

    wait_for(scraped_anew, what="samples of scrapes after the restart")
    # It listens before it has read its data, and says 503 until then.
    assert outcomes <= {Outcome.NO_CONNECTION, Outcome.SERVER_ERROR}


def test_a_server_that_hangs_is_not_waited_for(prometheus: Prometheus) -> None:
    prometheus.component.kill(signal.SIGSTOP)
    try:
        with pytest.raises(PollError) as late:
            samples(prometheus, deadline=SHORT_SECONDS)
        assert late.value.outcome is Outcome.TIMEOUT
    finally:
        prometheus.component.kill(signal.SIGCONT)


def test_a_configuration_that_the_server_refuses_is_an_error_with_its_reason(
    served: Kubelets, prometheus: Prometheus
) -> None:
    with pytest.raises(TestbedError, match="multiple scrape configs with job name"):
        prometheus.configure(2 * jobs(served))
