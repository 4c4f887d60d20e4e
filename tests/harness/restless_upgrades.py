"""Random worlds whose pools have upgrades: machines restart or are patched, gates open and close."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from harness.builders import Object
from harness.pods import a_pod, some_work
from harness.restless import ERRORS, RestlessWorld
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.model.budgets import Budget

LONG_AGO: Final = {"schedule": "0 0 1 1 *", "durationSeconds": 3600}
OFTEN: Final = {"schedule": "*/10 * * * *", "durationSeconds": 300}

UPGRADES: Final[tuple[Object, ...]] = (
    {},
    {"maxUnavailable": 2, "maxFailedNodes": 2},
    {"maxUnavailable": "50%", "triggers": ["OSRevision"]},
    {"method": "Replace", "triggers": ["OSVersion", "KubeletSkew"]},
    {"maintenanceWindows": [LONG_AGO]},
    {
        "maintenanceWindows": [LONG_AGO],
        "overrides": [{"gate": "MaintenanceWindow", "until": "2026-11-01T13:00:00Z", "reason": "now"}],
    },
    {"pauseRequests": [{"owner": "sre", "reason": "incident"}]},
)
TARGETS: Final[tuple[Object, ...]] = (
    {"version": "2022"},
    {"version": "2022", "targetRevision": 4052},
    {"version": "2022", "targetRevision": 9000},
    {"version": "2025"},
)
REVISIONS: Final = (4052, 9000)


class RestlessUpgrades(RestlessWorld):
    """A world in which also happens what matters to upgrades."""

    pods_seconds = 600.0

    def _spec(self) -> Object:
        spec = {**super()._spec(), "upgrade": self.chance.choice(UPGRADES), "os": self.chance.choice(TARGETS)}
        self._say(f"upgrade {spec['upgrade']} to {spec['os']}")
        return spec

    def _happenings(self) -> list[Callable[[], None]]:
        return [
            *super()._happenings(),
            self._reboot,
            self._patch,
            self._cordon,
            self._request,
            self._hold,
            self._relabel,
            self._run_work,
            self._fail_budgets,
        ]

    def _reboot(self) -> None:
        if node := self._any_node():
            self._made += 1
            self.cluster.put_node(replace(node, boot_id=str(self._made)))

    def _patch(self) -> None:
        if node := self._any_node():
            kernel = f"10.0.20348.{self.chance.choice(REVISIONS)}"
            versions = replace(node.versions, kernel=kernel)
            self.cluster.put_node(replace(node, versions=versions))

    def _cordon(self) -> None:
        if node := self._any_node():
            self.cluster.put_node(replace(node, unschedulable=not node.unschedulable))

    def _request(self) -> None:
        self._annotate(UPGRADE_REQUESTED_ANNOTATION, "wants a patch")

    def _hold(self) -> None:
        until = self.cluster.now() + timedelta(minutes=5)
        self._annotate(HOLD_ANNOTATION, self.chance.choice(("", f"{until:%Y-%m-%dT%H:%M:%SZ}")))

    def _annotate(self, key: str, text: str) -> None:
        if node := self._any_node():
            rest = {each: value for each, value in node.annotations.items() if each != key}
            self.cluster.put_node(
                replace(node, annotations=rest if key in node.annotations else {**rest, key: text})
            )

    def _relabel(self) -> None:
        if node := self._any_node():
            state = self.chance.choice(("Required", "Gated", "UpToDate", "Unheard"))
            self.cluster.put_node(replace(node, labels={**node.labels, UPGRADE_STATE_LABEL: state}))

    def _run_work(self) -> None:
        if node := self._any_node():
            self._made += 1
            work = some_work(memory=self.chance.choice((2**20, 2**40)))
            pod = a_pod(f"shop/w{self._made}", node=node.name, labels={"app": "web"}, work=work)
            self.cluster.pods.append(pod)
            self.cluster.budgets[:] = self.chance.choice(
                ([], [Budget("shop", "web", labels={"app": "web"}, allowed=self.chance.randint(0, 1))])
            )

    def _fail_budgets(self) -> None:
        trouble = self.cluster.trouble
        trouble.budgets = None if trouble.budgets else self.chance.choice(ERRORS[:4])

    def _heal(self) -> None:
        self.cluster.trouble.budgets = None
        super()._heal()
