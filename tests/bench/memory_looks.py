"""What is seen of an operator that polls kubelets: connections, ages of samples, what it asked for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import psutil

from bench.counting import is_node_change, requests
from bench.errors import BenchError
from bench.ground import Ground
from bench.memory_fleet import Groups
from bench.operator_process import USER
from bench.sampling import Meter, Usage, memory_bytes
from bench.scraping import Scrape
from testbed.audit import AuditRecord
from testbed.winsim.replies import Asked
from winpool.api.keys import READER_ACCOUNT
from winpool.model.memory_report import MemoryReport

LOOK_SECONDS: Final = 5.0
"""Between two looks at connections."""
LOOKS: Final = 24
"""At ages: one takes the operator 0.1 s at 5,000 nodes."""

SUMMARY: Final = "/stats/summary"
SAMPLED: Final = "Sampled"
REVIEWS: Final = ("tokenreviews", "subjectaccessreviews")


@dataclass(slots=True)
class Connections:
    """The most that were open at a look, in all and to one node."""

    most: int = 0
    most_of_a_node: int = 0

    def look(self, pid: int, *, port: int) -> None:
        """Look at the connections of a process to kubelets, which all listen at ``port``."""
        open_ = Counter(
            each.raddr.ip
            for each in psutil.Process(pid).net_connections(kind="tcp")
            if each.raddr and each.raddr.port == port and each.status == psutil.CONN_ESTABLISHED
        )
        self.most = max(self.most, open_.total())
        self.most_of_a_node = max(self.most_of_a_node, *open_.values(), 0)


@dataclass(slots=True)
class Ages:
    """The ages of samples in seconds, one for each node and look, by group; and how many were unknown."""

    known: dict[str, list[float]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def note(self, report: MemoryReport, groups: Groups) -> None:
        """Note what the operator tells of each node."""
        for node in report.nodes:
            group = groups.of(node.node)
            if node.level is None or node.age_seconds is None:
                self.unknown[group] += 1
            else:
                self.known.setdefault(group, []).append(node.age_seconds)

    def of(self, *groups: str) -> list[float]:
        """Return the ages in these groups."""
        return [age for group in groups for age in self.known.get(group, ())]


@dataclass(frozen=True, slots=True)
class Asking:
    """What was asked in a while. ``requests`` are by path, as they arrived; ``samples`` by outcome.

    ``poll_seconds`` is how long polls took, added up. ``made`` is how many connections were.
    """

    requests: Mapping[str, int]
    samples: Mapping[str, int]
    poll_seconds: float
    made: int


@dataclass(frozen=True, slots=True)
class Phase:
    """A while of an operator that polls. ``most_of_a_node`` is of all requests since the fleet started.

    ``written`` is what the operator wrote, but to Leases and for the token of the reader; ``node_writes`` are
    those to nodes. ``reviews`` is what kubelets asked the API server about its token and rights.
    """

    usage: Usage
    asking: Asking
    most_of_a_node: int
    connections: Connections
    ages: Ages
    rss_bytes: int
    peak_rss_bytes: int
    written: Mapping[str, int]
    node_writes: int
    reviews: int
    whole_seconds: float


def observe(ground: Ground, groups: Groups, *, seconds: float, look_seconds: float) -> Phase:
    """Let the operator poll for ``seconds``, and then look at the ages of its samples for ``look_seconds``.

    Looking at ages costs the operator a report of all nodes each time: not while its cost is measured.
    """
    fleet, operator = ground.testbed.fleet, ground.operator
    port = fleet.summary().kubelet_port
    if port is None:
        raise BenchError("the nodes serve no kubelet endpoints")
    start, began = ground.trail.mark(), time.monotonic()
    before = operator.scrape(), fleet.asked()
    meter = Meter({**ground.pids(), "operator": operator.pid})
    connections, ages = Connections(), Ages()
    while time.monotonic() < began + seconds:
        operator.require_alive()
        connections.look(operator.pid, port=port)
        time.sleep(LOOK_SECONDS)
    usage = meter.read()
    after = operator.scrape(), fleet.asked()
    rss, peak = memory_bytes(operator.pid), memory_bytes(operator.pid, peak=True)
    looked_from = time.monotonic()
    while time.monotonic() < looked_from + look_seconds:
        ages.note(operator.memory(), groups)
        time.sleep(look_seconds / LOOKS)
    whole = time.monotonic() - began
    records = ground.trail.between(start, ground.trail.mark())
    own = [each for each in records if is_own_write(each)]
    return Phase(
        usage=usage,
        asking=asking(before, after),
        most_of_a_node=after[1].most_of_a_node,
        connections=connections,
        ages=ages,
        rss_bytes=rss,
        peak_rss_bytes=peak,
        written=requests(own, user=USER),
        node_writes=sum(is_node_change(each) for each in own),
        reviews=sum(each.resource in REVIEWS for each in records if each.user.startswith("system:node:")),
        whole_seconds=whole,
    )


def is_own_write(record: AuditRecord) -> bool:
    """Whether the operator wrote, and it was not for the token that it shows to kubelets."""
    return record.user == USER and record.writes and record.name != READER_ACCOUNT


def asking(before: tuple[Scrape, Asked], after: tuple[Scrape, Asked]) -> Asking:
    """Return what was asked between two moments."""
    told, asked = (Counter(each.requests) for each in (before[1], after[1]))
    samples = [
        Counter(
            {
                outcome: round(count)
                for outcome, count in each.by_label("winpool_memory_samples_total", "result").items()
            }
        )
        for each in (before[0], after[0])
    ]
    took = [each[0].total("winpool_memory_poll_seconds_sum") or 0.0 for each in (before, after)]
    return Asking(
        requests=dict(asked - told),
        samples=dict(samples[1] - samples[0]),
        poll_seconds=took[1] - took[0],
        made=after[1].connections - before[1].connections,
    )
