"""A test's own corner of the shared cluster: its nodes, its pools, its operator, nobody else's."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from harness.asking import CLUSTER_SCOPED, get
from harness.forked import Forked
from harness.gate import WriteGate
from harness.nodes import carried, is_settled, taints_of
from harness.operator import USER, Operator
from harness.waiting import GUARD_SECONDS, HopelessError, eventually
from harness.watcher import Watcher
from testbed.api import ApiError
from testbed.audit import AuditRecord
from testbed.cluster import Testbed
from testbed.errors import tail
from winpool.api.keys import REPORTING_CONTROLLER

RUN_LABEL = "example.com/run"
"""Every node of a test carries this label with the test's suffix: what its pools select by."""
NODES: Final = CLUSTER_SCOPED["nodes"]
POOLS: Final = CLUSTER_SCOPED["wnp"]

Object = dict[str, Any]


class World:
    """Everything in it is named after ``suffix``; ``close`` asserts that nothing of it is left."""

    def __init__(self, testbed: Testbed, *, directory: Path) -> None:
        self.testbed = testbed
        self.directory = directory
        self.suffix = secrets.token_hex(3)
        self.selector = {RUN_LABEL: self.suffix}
        self.operator = Operator(
            kubeconfig=testbed.kubeconfig("winpool"), log_file=directory / "operator.log"
        )
        self._further: list[Operator] = []
        self._simulators: list[Forked] = []
        self._fleets = 0

    # Nodes

    def fleet(
        self,
        *,
        windows: int | None = None,
        linux: int = 0,
        samples: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        taints: Sequence[str] = (),
        extra: Sequence[str] = (),
    ) -> list[str]:
        """Bring up simulated nodes with the run label, wait until all are Ready, return their names.

        ``samples`` (winsim's names for them) are real nodes that the Windows nodes are copies of, in turn; of
        these there is one for each then, else twelve, if ``windows`` does not say. ``labels`` are further
        ones; ``taints`` (key=value:Effect) are those the kubelets register with. ``extra`` are further
        arguments of winsim.
        """
        if windows is None:
            windows = len(samples) or 12
        prefix = f"n{self.suffix}{chr(ord('a') + self._fleets)}"
        self._fleets += 1
        arguments = [f"--label={k}={v}" for k, v in {**self.selector, **(labels or {})}.items()]
        arguments += [f"--taint={taint}" for taint in taints]
        arguments += [f"--windows-sample={sample}" for sample in samples]
        log = self.directory / f"winsim-{prefix}.log"
        command = self.testbed.winsim_command(
            windows=windows, linux=linux, extra=(f"--prefix={prefix}", "--delete-on-exit", *arguments, *extra)
        )
        python = [sys.executable, "-m", "testbed.winsim"]
        assert command[: len(python)] == python
        process = Forked(
            "testbed.winsim.__main__", command[len(python) :], environment=os.environ, output=log
        )
        self._simulators.append(process)

        def names() -> list[str]:
            if process.poll() is not None:
                raise HopelessError(f"the simulated nodes have ended; the end of {log}:\n{tail(log)}")
            return sorted(
                name for name, node in self.nodes().items() if name.startswith(prefix) and is_settled(node)
            )

        return (
            eventually(
                lambda: found if len(found := names()) == windows + linux else None,
                what=f"{windows + linux} nodes of {prefix} Ready",
            )
            or []
        )

    def nodes(self) -> dict[str, Object]:
        """Return the test's nodes by name."""
        found = self.get("nodes", "-l", f"{RUN_LABEL}={self.suffix}")["items"]
        return {node["metadata"]["name"]: node for node in found}

    def node(self, name: str) -> Object:
        """Return one node."""
        return self.get("node", name)

    def carried(self) -> dict[str, Object]:
        """Return what each of the test's nodes carries: a copy to compare with later."""
        return {name: carried(node) for name, node in self.nodes().items()}

    def cordon(self, name: str) -> None:
        """Cordon a node as a person; return once the control plane has tainted it, which comes later."""
        self.kubectl("cordon", name)
        eventually(
            lambda: "node.kubernetes.io/unschedulable=:NoSchedule" in taints_of(self.node(name)),
            what="the taint of a cordoned node",
        )

    def watch_nodes(self) -> Watcher:
        """Return an independent witness of every change of the test's nodes; use it with ``with``."""
        return Watcher(self.testbed, "nodes", "-l", f"{RUN_LABEL}={self.suffix}")

    def kill_kubelets(self, name: str) -> None:
        """SIGKILL the process of the kubelet of this node, and with it all kubelets of its fleet."""
        prefix = name.rpartition("-")[0]
        simulator = self._simulators[ord(prefix[-1]) - ord("a")]
        simulator.kill()
        simulator.wait(timeout=10)

    # Pools

    def pool(self, name: str = "pool", **spec: Any) -> Object:
        """Return a manifest whose name ends in the suffix, selecting all of the test's Windows nodes.

        ``spec`` fields are given in the API's own names and replace what stands there.
        """
        return {
            "apiVersion": "winpool.dev/v1alpha1",
            "kind": "WindowsNodePool",
            "metadata": {"name": f"{name}-{self.suffix}"},
            "spec": {
                "nodeSelector": {"matchLabels": dict(self.selector)},
                "os": {"version": "2022"},
                **spec,
            },
        }

    def apply(self, manifest: Object) -> str:
        """Create a pool, or have an existing one ask for what the manifest asks for; return its name.

        It is what ``kubectl apply`` does where nobody else has fields of the spec, at 1 % of its cost.
        """
        name = str(manifest["metadata"]["name"])
        assert set(manifest["metadata"]) == {"name"}, "what else is there is for kubectl apply"
        api = self.testbed.api()
        try:
            api.create(POOLS, manifest, fieldValidation="Strict")
        except ApiError as error:
            if error.answer.get("reason") != "AlreadyExists":
                raise
            asked = [{"op": "replace", "path": "/spec", "value": manifest["spec"]}]
            api.change(f"{POOLS}/{name}", asked, fieldValidation="Strict")
        return name

    def delete(self, name: str, *, wait: bool = True) -> None:
        """Delete the pool; with ``wait``, return when it is gone."""
        self.testbed.api().delete(f"{POOLS}/{name}")
        if wait:
            eventually(lambda: name not in self.pools(), what=f"pool {name} gone")

    def pools(self) -> dict[str, Object]:
        """Return the test's pools by name."""
        found = self.get("wnp")["items"]
        named = {each["metadata"]["name"]: each for each in found}
        return {name: pool for name, pool in named.items() if name.endswith(f"-{self.suffix}")}

    def status(self, name: str) -> Object:
        """Return the status of a pool."""
        return dict(self.get("wnp", name).get("status", {}))

    def condition(self, name: str, type_: str) -> Object:
        """Return one condition of a pool; {} where it has none of that type."""
        conditions = self.status(name).get("conditions", [])
        return next((each for each in conditions if each["type"] == type_), {})

    def wait_up_to_date(
        self, name: str, *, nodes: int | None = None, seconds: float = GUARD_SECONDS
    ) -> Object:
        """Return the status once it tells of the current generation and all nodes are up to date."""

        def check() -> Object | None:
            pool = self.get("wnp", name)
            status: Object = pool.get("status", {})
            conditions = {each["type"]: each for each in status.get("conditions", [])}
            current = status.get("observedGeneration") == pool["metadata"]["generation"]
            done = conditions.get("NodesUpToDate", {}).get("status") == "True"
            right = nodes is None or status.get("upToDateNodes") == status.get("nodes") == nodes
            return status if current and done and right else None

        return eventually(check, what=f"pool {name} up to date", seconds=seconds) or {}

    def wait_written(self, name: str, *, nodes: int, seconds: float = GUARD_SECONDS) -> Object:
        """Return the status once all labels and taints are on, whatever Windows the nodes run."""

        def check() -> Object | None:
            pool = self.get("wnp", name)
            status: Object = pool.get("status", {})
            conditions = {each["type"]: each for each in status.get("conditions", [])}
            current = status.get("observedGeneration") == pool["metadata"]["generation"]
            said = {kind: conditions.get(kind, {}).get("status") for kind in ("Accepted", "Reconciling")}
            done = said == {"Accepted": "True", "Reconciling": "False"}
            return status if current and done and status.get("nodes") == nodes else None

        return eventually(check, what=f"the labels and taints of {name} on", seconds=seconds) or {}

    def watch_pool(self, name: str) -> Watcher:
        """Return an independent witness of every change of a pool; use it with ``with``."""
        return Watcher(self.testbed, "wnp", name)

    # The operator

    def further_operator(
        self,
        *,
        environment: Mapping[str, str],
        kubeconfig: Path | None = None,
        module: str = "winpool.__main__",
    ) -> Operator:
        """Return an operator beside ``operator``, not started yet; ``close`` kills it before all else.

        Its account is the same. In the audit log its identity, which it logs, is part of the User-Agent.
        """
        operator = Operator(
            kubeconfig=kubeconfig or self.testbed.kubeconfig("winpool"),
            log_file=self.directory / f"operator-{len(self._further) + 2}.log",
            environment=environment,
            module=module,
        )
        self._further.append(operator)
        return operator

    def write_gate(self, *, passes: int) -> WriteGate:
        """Return what holds all writes of the operator to nodes but so many; use it with ``with``."""
        return WriteGate(self.testbed, passes=passes, node=min(self.nodes()))

    def requests(self, *, since: datetime, until: datetime | None = None) -> list[AuditRecord]:
        """Return what the operator asked of the API server, by the audit log; nothing is left out."""
        self.testbed.settle_audit()
        return self.testbed.audit.requests(user=USER, since=since, until=until)

    def writes(self, *, since: datetime, until: datetime | None = None) -> list[AuditRecord]:
        """Return the operator's writes but those to a Lease, whatever the answer was."""
        asked = self.requests(since=since, until=until)
        return [each for each in asked if each.writes and each.resource != "leases"]

    def node_patches(self, *, since: datetime, until: datetime | None = None) -> list[AuditRecord]:
        """Return the operator's PATCHes of nodes, whatever the answer was."""
        return [each for each in self.requests(since=since, until=until) if is_node_patch(each)]

    def patched_nodes(self, *, since: datetime) -> list[str]:
        """Return the names of the nodes that the operator patched, each as often as it was, sorted.

        A PATCH that was answered 409, because a kubelet was faster, is not counted: it wrote nothing.
        """
        return sorted(each.name for each in self.node_patches(since=since) if each.code == HTTPStatus.OK)

    def own_events(self, *, kind: str, name: str) -> list[Object]:
        """Return the events about an object that the operator emitted."""
        found = self.events(kind=kind, name=name)
        return [each for each in found if each["reportingComponent"] == REPORTING_CONTROLLER]

    def reasons(self, *, kind: str, name: str) -> list[str]:
        """Return the reasons of the events about an object that the operator emitted, sorted."""
        return sorted(event["reason"] for event in self.own_events(kind=kind, name=name))

    def end_operator(self) -> None:
        """End the operator, which then sends the events that it still has: those of nodes wait for others."""
        assert self.operator.stop() == 0

    # The cluster

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as a cluster admin; return what it printed."""
        done = self.testbed.kubectl(*arguments, stdin=stdin, check=check)
        return done.stdout + done.stderr

    def get(self, *arguments: str) -> Object:
        """Return what ``kubectl get … -o json`` would print, parsed."""
        return get(self.testbed.api(), *arguments)

    def events(self, *, kind: str, name: str) -> list[Object]:
        """Return the events about an object."""
        found = self.get("events", "-n", "default", "--field-selector", f"involvedObject.name={name}")[
            "items"
        ]
        return [event for event in found if event["involvedObject"]["kind"] == kind]

    @staticmethod
    def now() -> datetime:
        """Return the time, for ``requests``."""
        return datetime.now(UTC)

    def close(self) -> None:
        """Take the test's things away, and assert that nothing of its suffix is left."""
        for operator in self._further:
            operator.close()
        try:
            if self.pools() and not self.operator.running:
                self.operator.close()
                self.operator.start()
            for name in self.pools():
                self.delete(name)
        finally:
            self.operator.close()
            for name in self.pools():  # an operator that releases nothing shall not spoil other tests too
                self._strip(name)
            for process in self._simulators:
                process.send_signal(signal.SIGTERM)
            for process in self._simulators:
                process.wait(timeout=30)
            for name in self.nodes():  # of kubelets that the test killed
                self.testbed.api().delete(f"{NODES}/{name}")
        assert not self.pools(), "a pool of this test is left"
        assert not self.nodes(), "a node of this test is left"

    def _strip(self, name: str) -> None:
        api = self.testbed.api()
        api.merge(f"{POOLS}/{name}", {"metadata": {"finalizers": None}})
        if name in self.pools():
            api.delete(f"{POOLS}/{name}")


def is_node_patch(record: AuditRecord) -> bool:
    """Whether the request was a PATCH of a node itself, not of its status."""
    return record.verb == "patch" and record.resource == "nodes" and not record.subresource
