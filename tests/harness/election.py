"""Two operators with leader election in one world, and what each of them wrote by the audit log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from harness.operator import Operator
from harness.waiting import HopelessError, eventually
from harness.world import World
from testbed.api import ApiError
from testbed.audit import AuditRecord
from testbed.errors import tail

ELECTING: Final = {"WINPOOL_LEADER_ELECT": "true"}
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/winpool-system/leases/winpool"

_NAMED: Final = re.compile(r"this operator \((\S+_[0-9a-f]{8})\) (?:leads|stands by)")


def identity_of(operator: Operator) -> str:
    """Return the holder identity of an operator since its last start; it has led or stood by since then."""
    found: list[str] = _NAMED.findall(operator.log_text())
    return found[-1]


def leads(operator: Operator) -> bool:
    """Whether the operator says that it leads."""
    return operator.metric("winpool_leader") == 1


def stands_by(operator: Operator) -> bool:
    """Whether the operator is Ready and has said for whom it waits."""
    return operator.ready() and "stands by" in operator.log_text()


class Pair:
    """Two operators: ``first`` leads, ``second`` stands by, once ``start`` has returned."""

    def __init__(
        self,
        world: World,
        *,
        first_kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
        module: str = "winpool.__main__",
    ) -> None:
        self.world = world
        settings = {**ELECTING, **(environment or {})}
        self.first = world.further_operator(environment=settings, kubeconfig=first_kubeconfig, module=module)
        self.second = world.further_operator(environment=settings)

    def start(self) -> None:
        """Start both, one after the other."""
        self.first.start()
        wait_leading(self.first)
        self.second.start()
        eventually(lambda: stands_by(self.second), what="the second stands by")

    def writes(self, operator: Operator, *, since: datetime) -> list[AuditRecord]:
        """Return the writes of one of them but those of the Lease, whatever the answer was."""
        name = identity_of(operator)
        return [each for each in self.world.writes(since=since) if name in each.user_agent]

    def check_order(self, *, since: datetime, was_frozen: bool = False) -> None:
        """Assert that the second has written, and the first nothing from the first write of the second on.

        A process that ``was_frozen`` may have been so between its last check and the system call that sends:
        that one write goes out when it wakes. It has no effect, since its precondition refuses it (ADR 0021).
        """
        begun = self.writes(self.second, since=since)
        assert begun, "the second wrote nothing"
        late = [each for each in self.writes(self.first, since=since) if each.received >= begun[0].received]
        if was_frozen and [each.code for each in late] == [HTTPStatus.CONFLICT]:
            return
        assert [f"{each.verb} {each.uri} {each.code}" for each in late] == []


def wait_leading(operator: Operator, *, seconds: float = 90) -> None:
    """Return when the operator leads."""

    def check() -> bool:
        if not operator.running:
            raise HopelessError(f"the operator has ended:\n{tail(operator.log_file)}")
        return leads(operator)

    eventually(check, what=f"the operator leads ({operator.log_file})", seconds=seconds)


def lease(world: World) -> dict[str, Any]:
    """Return the spec of the Lease; {} where there is none."""
    try:
        return dict(world.testbed.api().get(LEASE)["spec"])
    except ApiError as error:
        if error.answer.get("reason") != "NotFound":
            raise
        return {}


def delete_lease(world: World) -> None:
    """Delete the Lease, if there is one."""
    if lease(world):
        world.testbed.api().delete(LEASE)
