"""The testbed as Python sees it: start one, ask it, harm it, end it."""

import subprocess
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from testbed import components, tokens
from testbed.api import Api
from testbed.audit import AuditLog
from testbed.build import ensure_binary
from testbed.component import Component
from testbed.control import ComponentStatus, Control, Request
from testbed.errors import TestbedError
from testbed.heartbeats import heartbeats
from testbed.kubeconfig import ADMIN, IDENTITIES, SUPERVISOR, write_user
from testbed.kubectl import Kubectl
from testbed.launch import await_ready, end_stranger, end_supervisor, refuse_occupied, start_supervisor
from testbed.options import Options
from testbed.paths import Layout
from testbed.pki import Pki
from testbed.population import Population
from testbed.process import find
from testbed.progress import Report, quiet
from testbed.state import State
from testbed.waiting import wait_until
from testbed.winsim.control import FleetControl

AUDIT_TIMEOUT_SECONDS: Final = 10.0
"""The line is there when the answer is; the rest is for a machine that was put to sleep."""


class Testbed:
    """A running Kubernetes control plane with simulated nodes, in one directory.

    Use it as a context manager, or call ``down``. Methods block; from a coroutine call them through
    ``asyncio.to_thread``.
    """

    __test__ = False  # its name begins like a test class; pytest must not collect it

    def __init__(
        self, layout: Layout, state: State, *, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._layout = layout
        self._state = state
        self._process = process
        self._control = Control(layout)
        self._kubectl = Kubectl(layout)
        self._population = Population(layout, kubectl=self._kubectl, control=self._control)
        self._apis: dict[str, Api] = {}
        self.audit = AuditLog(layout.audit_log)

    @classmethod
    def up(
        cls,
        *,
        directory: Path,
        apply: Sequence[Path] = (),
        windows: int = 0,
        linux: int = 0,
        die_with_parent: bool = True,
        options: Options | None = None,
        report: Report = quiet,
    ) -> Self:
        """Start a new cluster and return when it works and its nodes are Ready.

        Args:
            directory: for everything of this testbed; missing, empty, or that of an ended testbed.
            apply: manifests and kustomizations to apply, in this order.
            windows: simulated Windows nodes.
            linux: simulated Linux nodes.
            die_with_parent: end the testbed when this process ends; otherwise it stays until ``down``.
            options: everything else that can be chosen; its numbers of nodes give way to those above.
            report: told what happens, one line at a time.

        Raises:
            TestbedError: a step failed; the text says which and why, and nothing is left running.

        """
        chosen = (options or Options()).model_copy(update={"windows": windows, "linux": linux})
        layout = Layout(directory.absolute())
        refuse_occupied(layout)
        if missing := [str(path.absolute()) for path in apply if not path.exists()]:
            raise TestbedError(f"there is nothing to apply at {', '.join(missing)}")
        binary = ensure_binary(report=report)
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        report(f"starting the control plane in {layout.root}")
        process = start_supervisor(layout, options=chosen, binary=binary)
        try:
            testbed = cls(layout, await_ready(layout, process), process=process)
            report(f"control plane ready at {testbed.server}")
            if (pace := heartbeats(chosen)).stretched:
                report(f"{windows + linux} nodes: {pace}")
            testbed._population.apply(apply, report=report)
            report("waiting for the simulated nodes")
            testbed._population.await_fleet(windows + linux, report=report)
            if not die_with_parent:
                testbed._control.ask(Request(do="detach"))
        except BaseException:
            end_supervisor(process)
            raise
        return testbed

    @classmethod
    def attach(cls, directory: Path) -> Self:
        """Return the testbed that runs in a directory.

        Raises:
            TestbedError: none runs there.

        """
        layout = Layout(directory.absolute())
        state = State.read(layout)
        if state is None or find(state.pid, started=state.start_time) is None:
            raise TestbedError(f"no testbed runs in {layout.root}; start one with: python -m testbed up")
        return cls(layout, state)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def directory(self) -> Path:
        """Everything of this testbed lies here."""
        return self._layout.root

    @property
    def layout(self) -> Layout:
        """Names of the files in the directory."""
        return self._layout

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._state.server

    @property
    def etcd_url(self) -> str:
        """URL of etcd, plain HTTP on loopback."""
        return self._state.ports.etcd_url

    @property
    def prometheus_url(self) -> str:
        """Where ``testbed.prometheus_server`` listens while a test runs it, plain HTTP on loopback."""
        return self._state.ports.prometheus_url

    @property
    def supervisor_pid(self) -> int:
        """The process that all components die with."""
        return self._state.pid

    @property
    def ca_file(self) -> Path:
        """Certificate of the authority that signed the API server's."""
        return Pki(self._layout.pki).ca.certificate

    @property
    def kubelet_ca_file(self) -> Path:
        """Certificate of the authority that signs what simulated kubelets serve with."""
        return Pki(self._layout.pki).kubelet_ca.certificate

    @property
    def front_proxy(self) -> tuple[Path, Path]:
        """Certificate and key that may name any user in ``X-Remote-User`` and ``X-Remote-Group``."""
        pair = Pki(self._layout.pki).front_proxy_client
        return pair.certificate, pair.key

    @property
    def kubectl_path(self) -> Path:
        """The kubectl of this testbed; its folder is meant for PATH."""
        return self._layout.kubectl

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to use this cluster as admin with our kubectl."""
        return self._kubectl.environment(ADMIN)

    def kubeconfig(self, role: str) -> Path:
        """Return the kubeconfig of ``admin``, ``kcm``, ``scheduler``, ``winpool``, or of a user made here.

        Raises:
            TestbedError: there is no such role.

        """
        return self._kubectl.kubeconfig(role)

    def user_kubeconfig(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """Make a user who authenticates by client certificate, and return the kubeconfig.

        What the user may do is up to RBAC; the group ``system:masters`` may do everything. Asked for
        again, the user gets a new certificate with the groups given then.
        """
        role = f"user-{uuid.uuid5(uuid.NAMESPACE_URL, user).hex[:12]}"
        return write_user(self._layout, server=self.server, role=role, user=user, groups=groups)

    def kubectl(
        self,
        *args: str,
        role: str = ADMIN,
        stdin: str | None = None,
        check: bool = True,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run our kubectl.

        Args:
            args: arguments.
            role: whose kubeconfig to use.
            stdin: text for its standard input.
            check: raise where it fails.
            environment: added to its environment.

        Raises:
            KubectlError: it failed and ``check`` was asked for; the text has what it printed.

        """
        return self._kubectl.run(*args, role=role, stdin=stdin, check=check, environment=environment)

    def api(self, role: str = ADMIN) -> Api:
        """Return the API server as the user of a role asks it, over connections that ``down`` closes.

        Raises:
            TestbedError: there is no such role.

        """
        if role not in self._apis:
            self._apis[role] = Api(self.kubeconfig(role))
        return self._apis[role]

    def component(self, name: str) -> Component:
        """Return ``etcd``, ``apiserver``, ``kcm``, ``scheduler``, ``winsim``, or what ``run`` started."""
        return Component(self._control, name)

    def components(self) -> tuple[ComponentStatus, ...]:
        """Return all components and how they are."""
        return self._control.status().components

    def run(self, name: str, argv: Sequence[str], *, health_url: str | None = None) -> Component:
        """Start a further process under the supervisor; it ends with the testbed.

        Args:
            name: of the component, and of its log.
            argv: its command line.
            health_url: answers 200 once it is ready; None: it is, as soon as it runs.

        """
        self._control.ask(Request(do="run", component=name, argv=tuple(argv), health_url=health_url))
        return self.component(name)

    def winsim_command(self, *, windows: int = 0, linux: int = 0, extra: Sequence[str] = ()) -> list[str]:
        """Return the command line of further simulated nodes, for ``run`` or for the caller to start."""
        return list(
            components.winsim_argv(
                self._layout, server=self.server, windows=windows, linux=linux, extra=extra
            )
        )

    @property
    def fleet(self) -> FleetControl:
        """The simulated nodes that the testbed started with: ask them, tell them what to do."""
        return self._population.fleet

    def wait_nodes_ready(self, count: int, *, timeout_seconds: float | None = None) -> None:
        """Wait until at least so many nodes are Ready, whoever simulates them.

        Args:
            count: how many.
            timeout_seconds: how long at most; None: two minutes and 0.2 s for each.

        Raises:
            TestbedError: they are not after that time, or ``winsim`` has ended.

        """
        self._population.wait_nodes_ready(count, timeout_seconds=timeout_seconds)

    def mint_token(self, *, lifetime_seconds: float) -> str:
        """Sign a token for the operator's ServiceAccount; a negative lifetime makes one that has expired.

        Raises:
            ApiError: the ServiceAccount does not exist.

        """
        account = self.api().get(
            f"/api/v1/namespaces/{tokens.NAMESPACE}/serviceaccounts/{tokens.SERVICE_ACCOUNT}"
        )
        return tokens.mint(
            key_file=Pki(self._layout.pki).service_account_key,
            uid=account["metadata"]["uid"],
            now=datetime.now(UTC),
            lifetime_seconds=lifetime_seconds,
        )

    def renew_token(self, *, lifetime_seconds: float | None = None) -> None:
        """Have the operator's token file written anew now; a lifetime given here also holds from then on."""
        self._control.ask(Request(do="token", lifetime_seconds=lifetime_seconds))

    def settle_audit(self) -> None:
        """Return when the audit log has every request that was answered before this call.

        It asks the API server something of its own and waits for that line.

        Raises:
            TestbedError: the line does not appear.

        """
        since, settle = datetime.now(UTC), uuid.uuid4().hex
        mark = f"/version?settle={settle}"
        self.api(SUPERVISOR).get("/version", settle=settle)
        user, _ = IDENTITIES[SUPERVISOR]
        wait_until(
            lambda: any(each.uri == mark for each in self.audit.requests(user=user, since=since)),
            what="the audit log to show a request of our own",
            timeout_seconds=AUDIT_TIMEOUT_SECONDS,
        )

    def down(self) -> None:
        """End the testbed; nothing happens where it has ended already."""
        for api in self._apis.values():
            api.close()
        self._apis.clear()
        if self._process is not None:
            end_supervisor(self._process)
        else:
            end_stranger(self._state.pid, started=self._state.start_time)
