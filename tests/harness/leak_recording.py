"""Makes ``demo/leak.jsonl``: samples of the node on which ``make demo`` has a pod leak, if no one evicts it.

The pods and what they do are those of ``demo/batch.yaml`` and ``demo/leak.yaml``, the machine is that of
``demo/machines.py``. Write the file again with: PYTHONPATH=operator:tests python -m harness.leak_recording
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import yaml

from harness.documents import ROOT
from testbed.memory.hardware import FixedPageFile, Hardware
from testbed.memory.machine import Machine
from testbed.memory.pages import GIB, MIB
from testbed.memory.parsing import parse_workload
from testbed.memory.reading import PodIdentity
from testbed.memory.workloads import Workload

FILE: Final = ROOT / "demo" / "leak.jsonl"
LEAKS: Final = "worker-1-1"
"""The pod that leaks."""

_BEGAN: Final = datetime(2026, 1, 1, 9, tzinfo=UTC)
_ROLLED_OUT: Final = 120
"""After so many seconds version 1.1 replaces version 1.0, and the node is read every 2 s, as in the demo."""
_TIMES: Final = (*range(10, _ROLLED_OUT, 10), *range(_ROLLED_OUT, 241, 2))


def lines() -> Iterator[str]:
    """Yield the lines of the file, each with its newline."""
    machine = Machine(
        Hardware(ram_bytes=16 * GIB, page_file=FixedPageFile(size_bytes=8096 * MIB)), started_at=0.0, seed=1
    )
    sql, worker = yaml.safe_load_all((ROOT / "demo" / "batch.yaml").read_text())
    leak = yaml.safe_load((ROOT / "demo" / "leak.yaml").read_text())
    old, new = _pod(2, "worker-1-0"), _pod(3, LEAKS)
    machine.start(_pod(1, "sql-1-0"), _workload(sql), at=0)
    machine.start(old, _workload(worker), at=0)
    machine.stop(old.uid, at=_ROLLED_OUT)
    machine.start(new, _workload(leak), at=_ROLLED_OUT)
    for now in _TIMES:
        found = machine.reading(now)
        sample = {
            "node": "batch-0",
            "source": "Kubelet",
            "time": (_BEGAN + timedelta(seconds=now)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "committedBytes": found.commit_total_bytes,
            "commitLimitBytes": found.commit_limit_bytes,
            "physicalTotalBytes": found.physical_total_bytes,
            "kubeletAvailableBytes": found.physical_total_bytes - found.private_working_set_bytes,
            "pods": [
                {
                    "uid": each.uid,
                    "namespace": each.namespace,
                    "name": each.name,
                    "committedBytes": each.commit_bytes,
                    "workingSetBytes": each.private_working_set_bytes,
                }
                for each in found.pods
            ],
        }
        yield json.dumps(sample) + "\n"


def _pod(number: int, name: str) -> PodIdentity:
    return PodIdentity(namespace="default", name=name, uid=f"00000000-0000-0000-0000-{number:012}")


def _workload(deployment: Mapping[str, Any]) -> Workload:
    text = deployment["spec"]["template"]["metadata"]["annotations"]["winsim/memory"]
    return parse_workload(text, where="winsim/memory")


if __name__ == "__main__":
    FILE.write_text("".join(lines()))
