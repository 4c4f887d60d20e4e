"""States in which the operator cannot work.

A new state is one entry: how it is entered and left, and what the operator has to say.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from crash.stage import CRDS, MANIFESTS, Stage
from winpool.api.keys import CRD_NAME

EXPIRED_SECONDS: Final = -3600.0
SOON_EXPIRED_SECONDS: Final = -50.0
"""Such a token is good for about 10 s more, by the API server's leeway of 60 s."""


def _nothing(_: Stage) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One state; ``enter`` returns when it has begun, ``leave`` when it has ended."""

    name: str
    enter: Callable[[Stage], object]
    leave: Callable[[Stage], object]
    says: str
    """Regular expression for what /readyz and one line of the log have to say."""
    prepare: Callable[[Stage], object] = field(default=_nothing)
    """Called before the first operators are started."""
    answers: bool = True
    """Whether the API server answers other people meanwhile."""
    keeps_pool: bool = True
    """Whether the pool is still there afterwards."""
    hits_running: bool = True
    """Whether operators that run already notice it, and not only those that start in it."""
    ends_watches: bool = False
    """Whether open watches break off, so that it shows without a list."""

    @property
    def takes_rights(self) -> bool:
        """Whether the operator is refused something for good, and has to say so."""
        return "may not" in self.says

    @property
    def can_be_edited_in(self) -> bool:
        """Whether the pool can be edited meanwhile, without anybody being able to act on it."""
        return self.answers and self.keeps_pool and self.hits_running

    def __str__(self) -> str:
        return self.name


def kill_apiserver(stage: Stage) -> None:
    stage.testbed.component("apiserver").kill()


def start_apiserver(stage: Stage) -> None:
    stage.testbed.component("apiserver").start()
    stage.testbed.component("apiserver").wait_ready()


def freeze(component: str) -> Callable[[Stage], None]:
    return lambda stage: stage.testbed.component(component).kill(signal.SIGSTOP)


def thaw(component: str) -> Callable[[Stage], None]:
    def leave(stage: Stage) -> None:
        stage.testbed.component(component).kill(signal.SIGCONT)
        stage.testbed.component("apiserver").wait_ready()

    return leave


def put_soon_expired_token(stage: Stage) -> None:
    stage.put_token(lifetime_seconds=SOON_EXPIRED_SECONDS)


def put_expired_token(stage: Stage) -> None:
    stage.put_token(lifetime_seconds=EXPIRED_SECONDS)


def delete_service_account(stage: Stage) -> None:
    stage.world.kubectl("delete", "serviceaccount", "winpool", "-n", "winpool-system")


def restore_service_account(stage: Stage) -> None:
    restore_rights(stage)
    stage.testbed.renew_token()  # of the operator that cleans up in the end
    stage.good_token()


def delete_binding(stage: Stage) -> None:
    stage.world.kubectl("delete", "clusterrolebinding", "winpool")


def forbid_listing_nodes(stage: Stage) -> None:
    rules = stage.world.get("clusterrole", "winpool")["rules"]
    for rule in rules:
        if rule["resources"] == ["nodes"]:
            rule["verbs"].remove("list")
    patch = json.dumps({"rules": rules})
    stage.world.kubectl("patch", "clusterrole", "winpool", "--type=merge", "-p", patch)


def restore_rights(stage: Stage) -> None:
    stage.world.kubectl("apply", "-k", str(MANIFESTS))


def delete_crd(stage: Stage) -> None:
    stage.world.kubectl("delete", "crd", CRD_NAME, "--timeout=60s")


def restore_crd(stage: Stage) -> None:
    stage.world.kubectl("apply", "-k", str(CRDS))
    stage.world.kubectl("wait", "--for=condition=Established", "crd", CRD_NAME, "--timeout=60s")


API_SERVER_KILLED: Final = State(
    name="API server killed",
    enter=kill_apiserver,
    leave=start_apiserver,
    says=r"connect|broke",
    answers=False,
    ends_watches=True,
)
API_SERVER_FROZEN: Final = State(
    name="API server frozen",
    enter=freeze("apiserver"),
    leave=thaw("apiserver"),
    says=r"no answer|cannot connect|within \d+ s",
    answers=False,
)
ETCD_FROZEN: Final = State(
    name="etcd frozen",
    enter=freeze("etcd"),
    leave=thaw("etcd"),
    says=r"no answer|within \d+ s",
    answers=False,
)
TOKEN_EXPIRED: Final = State(
    name="token expired",
    prepare=put_soon_expired_token,
    enter=put_expired_token,
    leave=Stage.good_token,
    says=r"Unauthorized|401|token",
)
SERVICE_ACCOUNT_DELETED: Final = State(
    name="ServiceAccount deleted",
    enter=delete_service_account,
    leave=restore_service_account,
    says=r"Unauthorized|401|token",
)
RIGHTS_TAKEN_AWAY: Final = State(
    name="ClusterRoleBinding deleted",
    enter=delete_binding,
    leave=restore_rights,
    says=r'may not list windowsnodepools.*Add the rule.*"windowsnodepools"',
)
NODES_MAY_NOT_BE_LISTED: Final = State(
    name="nodes may not be listed",
    enter=forbid_listing_nodes,
    leave=restore_rights,
    says=r'may not list nodes.*Add the rule.*"nodes"',
    hits_running=False,
)
CRD_DELETED: Final = State(
    name="CRD deleted",
    enter=delete_crd,
    leave=restore_crd,
    says=rf"CRD {re.escape(CRD_NAME)} is not installed",
    keeps_pool=False,
)
SHORT: Final = (
    API_SERVER_KILLED,
    TOKEN_EXPIRED,
    RIGHTS_TAKEN_AWAY,
    NODES_MAY_NOT_BE_LISTED,
    CRD_DELETED,
)
"""In which an operator knows within seconds that something is wrong."""
LONG: Final = (API_SERVER_FROZEN, ETCD_FROZEN)
"""In which it knows only when an answer has not come for 30 s."""
