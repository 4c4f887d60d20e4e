"""The simulated nodes as tests and people see them: ask them, and tell them what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Literal

from testbed.errors import TestbedError
from testbed.waiting import wait_until
from testbed.winsim.entries import USUAL_OUTAGE
from testbed.winsim.exchange import exchange
from testbed.winsim.replies import Asked, Nodes, NodeView, Outcome, Summary, Truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from testbed.winsim.endpoint.faults import EndpointName, FaultKind
    from testbed.winsim.entries import Family, Outage, Updates

READY_TIMEOUT_SECONDS: Final = 180.0
"""A kubelet that starts is Ready within a second; the rest is for a machine under full load."""


class FleetControl:
    """One process of simulated nodes, by its control socket.

    Methods block; from a coroutine call them through ``asyncio.to_thread``. The object holds nothing open.
    Every method raises TestbedError where nobody answers, and where the fleet says no. Where a method
    takes ``nodes``, that is a number, a part (``"10%"``), a name, several names, or ``"all"``; numbers and
    parts are drawn by ``seed`` from the nodes that the verb would change, of one ``os`` if given. The
    methods that do something return the names of the nodes that they did it to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def summary(self) -> Summary:
        """Return the fleet in numbers."""
        return Summary.model_validate_json(exchange(self.path, "GET", "/v1/summary"))

    def status(self) -> tuple[NodeView, ...]:
        """Return all machines and their nodes."""
        return Nodes.model_validate_json(exchange(self.path, "GET", "/v1/nodes")).items

    def asked(self) -> Asked:
        """Return what has been asked of the kubelets of this fleet, whose endpoints are served."""
        return Asked.model_validate_json(exchange(self.path, "GET", "/v1/asked"))

    def truth(self, name: str) -> Truth:
        """Return what paging and denied allocations have done on a node whose endpoint is served."""
        return Truth.model_validate_json(exchange(self.path, "GET", f"/v1/truth/{name}"))

    def join(
        self,
        count: int | None = None,
        *,
        names: Iterable[str] = (),
        os: Family = "windows",
        release: str | None = None,
        revision: int | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Iterable[str] = (),
        memory: str | None = None,
        reserved_memory: str | None = None,
        ready: bool = True,
        ready_after: float = 0.0,
        unready_pods: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Add machines: a number of them, or some with names of your choice.

        Args:
            count: how many.
            names: instead of a number.
            os: what they run.
            release: which Windows (2022), with a ``revision`` (4171); None: as the others in turn.
            revision: see ``release``.
            labels: what their kubelets register with.
            taints: the same, as ``KEY[=VALUE]:EFFECT``.
            memory: how much they have, such as ``32Gi``; None: as others of their kind.
            reserved_memory: how much of it their kubelets hold back: Capacity minus Allocatable, to the KiB.
            ready: False: they stay NotReady until ``set_ready``.
            ready_after: seconds after registration, before which no node is Ready.
            unready_pods: DaemonSets, as NAMESPACE/NAME, whose containers are not Ready there.

        """
        given: dict[str, Any] = {
            "os": os,
            "release": release,
            "revision": revision,
            "labels": dict(labels or {}),
            "taints": list(taints),
            "memory": memory,
            "reserved_memory": reserved_memory,
            "ready": ready,
            "ready_after": ready_after,
            "unready_pods": list(unready_pods),
        }
        which: dict[str, Any] = {"names": list(names)} if count is None else {"count": count}
        return self.act("join", given | which)

    def leave(
        self, nodes: int | str | Sequence[str], *, os: Family | None = None, seed: int | str = 0
    ) -> tuple[str, ...]:
        """Take machines away and delete their Nodes, as a cloud does; returns when these are gone."""
        return self.act("leave", _selecting(nodes, os=os, seed=seed))

    def replace(
        self,
        nodes: int | str | Sequence[str],
        *,
        memory: str | None = None,
        reserved_memory: str | None = None,
        ready_after: float = 0.0,
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Put new machines in the place of old ones, under the same names and with new UIDs.

        They have the memory of the old ones where no other is given; see ``join``.
        """
        given = {"memory": memory, "reserved_memory": reserved_memory, "ready_after": ready_after}
        return self.act("replace", _selecting(nodes, os=os, seed=seed) | given)

    def surge(
        self,
        nodes: int | str | Sequence[str],
        *,
        release: str | None = None,
        revision: int | None = None,
        ready_after: float = 0.0,
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Bring a new machine for each old one, which leaves once the new one is Ready.

        Returns the names of the old ones, as soon as the new kubelets have begun; see ``join``.
        """
        given: dict[str, Any] = {"release": release, "revision": revision, "ready_after": ready_after}
        return self.act("surge", _selecting(nodes, os=os, seed=seed) | given)

    def stop(
        self, nodes: int | str | Sequence[str], *, os: Family | None = None, seed: int | str = 0
    ) -> tuple[str, ...]:
        """Stop kubelets; returns when nothing more is sent. In time their nodes become Unknown."""
        return self.act("stop", _selecting(nodes, os=os, seed=seed))

    def start(
        self, nodes: int | str | Sequence[str], *, os: Family | None = None, seed: int | str = 0
    ) -> tuple[str, ...]:
        """Start kubelets that were stopped."""
        return self.act("start", _selecting(nodes, os=os, seed=seed))

    def restart(
        self,
        nodes: int | str | Sequence[str],
        *,
        reserved_memory: str | None = None,
        eviction_hard: str | None = None,
        kube_reserved: str | None = None,
        cluster_dns: str | None = None,
        pause_image: str | None = None,
        pause_pulled: bool = False,
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Stop kubelets and start them again, configured from then on as is given.

        They hold back so much memory; the threshold of hard eviction and what is for Kubernetes are parts of
        it. For the rest see ``machines.Setup``; ``none`` is no DNS service, ``usual`` the usual pause image.
        """
        given = {
            "reserved_memory": reserved_memory,
            "eviction_hard": eviction_hard,
            "kube_reserved": kube_reserved,
            "cluster_dns": cluster_dns,
            "pause_image": pause_image,
            "pause_pulled": pause_pulled,
        }
        return self.act("restart", _selecting(nodes, os=os, seed=seed) | given)

    def reboot(
        self,
        nodes: int | str | Sequence[str],
        *,
        outage: Outage = USUAL_OUTAGE,
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Reboot machines; returns when they are down. They come back by themselves."""
        return self.act("reboot", _selecting(nodes, os=os, seed=seed) | asdict(outage))

    def patch(
        self,
        nodes: int | str | Sequence[str],
        *,
        revision: int,
        outage: Outage = USUAL_OUTAGE,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Give Windows another revision, with a reboot; see there."""
        given: dict[str, Any] = {"revision": revision}
        return self.act("patch", _selecting(nodes, os=None, seed=seed) | given | asdict(outage))

    def hotpatch(
        self, nodes: int | str | Sequence[str], *, revision: int, seed: int | str = 0
    ) -> tuple[str, ...]:
        """Give Windows another revision without a reboot; nodes report it after a start of their kubelets."""
        return self.act("hotpatch", _selecting(nodes, os=None, seed=seed) | {"revision": revision})

    def set_updates(
        self, nodes: int | str | Sequence[str], *, result: Updates, seed: int | str = 0
    ) -> tuple[str, ...]:
        """Have updates and new systems fail on machines from now on, or succeed again."""
        return self.act("set_updates", _selecting(nodes, os=None, seed=seed) | {"result": result})

    def reimage(
        self,
        nodes: int | str | Sequence[str],
        *,
        release: str,
        revision: int,
        keep_node: bool = False,
        outage: Outage = USUAL_OUTAGE,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Install a release of Windows anew, on the same Node or as another one; see ``reboot``."""
        given: dict[str, Any] = {"release": release, "revision": revision, "keep_node": keep_node}
        return self.act("reimage", _selecting(nodes, os=None, seed=seed) | given | asdict(outage))

    def set_pods_ready(
        self,
        nodes: int | str | Sequence[str],
        *,
        pods: Iterable[str],
        ready: bool,
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Have containers of DaemonSets or pods (NAMESPACE/NAME) be not Ready on nodes, or Ready again."""
        given = {"pods": list(pods), "ready": ready}
        return self.act("set_pods_ready", _selecting(nodes, os=os, seed=seed) | given)

    def set_endpoint_fault(
        self,
        nodes: int | str | Sequence[str],
        *,
        fault: FaultKind | Literal["none"],
        endpoint: EndpointName = "kubelet",
        seconds: float | None = None,
        name: str = "",
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Have an endpoint of Windows nodes be broken in one way (``endpoint.faults``), or be well again."""
        given: dict[str, Any] = {"fault": fault, "endpoint": endpoint, "name": name}
        if seconds is not None:
            given["seconds"] = seconds
        return self.act("set_endpoint_fault", _selecting(nodes, os=os, seed=seed) | given)

    def lose_memory(
        self,
        nodes: int | str | Sequence[str],
        *,
        growth_per_minute: str,
        into: str = "NonPagedPool",
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Have Windows itself lose memory on machines, until they start again or are replaced."""
        given = {"growth_per_minute": growth_per_minute, "into": into}
        return self.act("lose_memory", _selecting(nodes, os=None, seed=seed) | given)

    def assign_pod_cidr(
        self, nodes: int | str | Sequence[str], *, pod_cidr: str, flannel: bool = False, seed: int | str = 0
    ) -> tuple[str, ...]:
        """Give nodes one range of pod addresses for good, with flannel's annotations or without."""
        given: dict[str, Any] = {"pod_cidr": pod_cidr, "flannel": flannel}
        return self.act("assign_pod_cidr", _selecting(nodes, os=None, seed=seed) | given)

    def set_ready(
        self,
        nodes: int | str | Sequence[str],
        *,
        ready: bool,
        reason: str | None = None,
        message: str | None = None,
        os: Family | None = None,
        seed: int | str = 0,
    ) -> tuple[str, ...]:
        """Have kubelets report Ready=False with a reason and a message, or Ready=True again."""
        told = {"reason": reason, "message": message}
        given = {key: text for key, text in told.items() if text is not None}
        return self.act("set_ready", _selecting(nodes, os=os, seed=seed) | {"ready": ready} | given)

    def act(self, verb: str, arguments: Mapping[str, Any], *, choose_only: bool = False) -> tuple[str, ...]:
        """Do something by the name of its verb.

        Args:
            verb: one of ``testbed.winsim.verbs.VERBS``.
            arguments: fields of that verb's model.
            choose_only: return the nodes that it would be for, and do nothing.

        """
        path = f"/v1/{verb}?choose" if choose_only else f"/v1/{verb}"
        return Outcome.model_validate_json(exchange(self.path, "POST", path, body=arguments)).names

    def wait_ready(
        self, names: Iterable[str] | None = None, *, timeout_seconds: float = READY_TIMEOUT_SECONDS
    ) -> None:
        """Wait until nodes are Ready: these, or all.

        Raises:
            TestbedError: they are not after that time, and the text names some of them; or the fleet has no
                such nodes.

        """
        known = {node.name for node in self.status()}
        wanted = known if names is None else set(names)
        if strange := wanted - known:
            raise TestbedError(f"there is no node {', '.join(sorted(strange))} in this fleet")

        def missing() -> list[str]:
            found = Outcome.model_validate_json(exchange(self.path, "GET", "/v1/unready")).names
            return sorted(wanted.intersection(found))

        wait_until(
            lambda: not missing(),
            what="simulated nodes to be Ready",
            timeout_seconds=timeout_seconds,
            explain=lambda: f"; not Ready: {', '.join(missing()[:10])}",
        )


def _selecting(nodes: int | str | Sequence[str], *, os: Family | None, seed: int | str) -> dict[str, Any]:
    chosen = nodes if isinstance(nodes, int | str) else list(nodes)
    return {"nodes": chosen, "seed": seed} | ({} if os is None else {"os": os})
