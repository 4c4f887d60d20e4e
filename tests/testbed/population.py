"""What stands in a control plane at the start: the manifests that were applied, and simulated nodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed import components, tokens
from testbed.bringup import await_fleet, nodes_timeout_seconds
from testbed.control import Control
from testbed.errors import TestbedError, tail
from testbed.kubectl import Kubectl
from testbed.paths import Layout
from testbed.progress import Report
from testbed.waiting import wait_until
from testbed.winsim.control import FleetControl

KINDS_TIMEOUT_SECONDS: Final = 30.0
"""Discovery has a new CRD a moment after it was taken; the rest is for a machine under full load."""
TOKEN_TIMEOUT_SECONDS: Final = 30.0
"""The supervisor looks for the ServiceAccount twice a second."""


class Population:
    """Puts it there, and waits until it is."""

    def __init__(self, layout: Layout, *, kubectl: Kubectl, control: Control) -> None:
        self._layout = layout
        self._kubectl = kubectl
        self._control = control

    @property
    def fleet(self) -> FleetControl:
        """The simulated nodes that the testbed started with."""
        return FleetControl(self._layout.fleet_socket)

    def apply(self, paths: Sequence[Path], *, report: Report) -> None:
        """Apply manifests and kustomizations; return when kubectl knows them and the operator has a token.

        Raises:
            KubectlError: the API server refused something.
            TestbedError: it took too long.

        """
        for path in paths:
            report(f"applying {path}")
            self._kubectl.apply(path)
        if paths:
            wait_until(
                self._kubectl.knows_all_kinds,
                what="kubectl to know the kinds that were applied",
                timeout_seconds=KINDS_TIMEOUT_SECONDS,
            )
        if (paths and self._operator_is_installed()) or self._layout.token.exists():
            wait_until(
                self._layout.token.exists,
                what=f"a token for {tokens.subject()}",
                timeout_seconds=TOKEN_TIMEOUT_SECONDS,
            )

    def await_fleet(self, nodes: int, *, report: Report) -> None:
        """Wait until so many simulated nodes are Ready, and show how far they are.

        Raises:
            TestbedError: they are not in time, or their process has ended.

        """
        if not nodes:
            return
        await_fleet(
            self.fleet, nodes=nodes, alive=self._refuse_dead_fleet, explain=self._end_of_log, report=report
        )
        report(f"{nodes} nodes ready")

    def wait_nodes_ready(self, count: int, *, timeout_seconds: float | None = None) -> None:
        """Wait until at least so many nodes are Ready, whoever simulates them.

        Args:
            count: how many.
            timeout_seconds: how long at most; None: what so many nodes may take.

        Raises:
            TestbedError: they are not after that time, or ``winsim`` has ended.

        """

        def are_ready() -> bool:
            self._refuse_dead_fleet()
            return self._kubectl.ready_nodes() >= count

        wait_until(
            are_ready,
            what=f"{count} nodes to be Ready",
            timeout_seconds=nodes_timeout_seconds(count) if timeout_seconds is None else timeout_seconds,
            explain=lambda: f" ({self._kubectl.ready_nodes()} are){self._end_of_log()}",
        )

    def _refuse_dead_fleet(self) -> None:
        for status in self._control.status().components:
            if status.name == components.WINSIM and status.exit:
                raise TestbedError(f"{status.name} ended ({status.exit}){self._end_of_log()}")

    def _end_of_log(self) -> str:
        log = self._layout.log(components.WINSIM)
        return f"; the end of {log}:\n{tail(log)}"

    def _operator_is_installed(self) -> bool:
        account = ["serviceaccount", tokens.SERVICE_ACCOUNT, "-n", tokens.NAMESPACE]
        return bool(self._kubectl.run("get", *account, "--ignore-not-found", "-o", "name").stdout.strip())
