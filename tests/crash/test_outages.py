"""The API server or the credentials fail: it says so, waits, comes back by itself, can be ended (P1, P4).

What lasts longer is in ``test_long_outages.py``; ``tests/cluster/test_outages.py`` has one of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crash.outages import live_past, live_through
from crash.stage import NODES, USUAL_RELIST_SECONDS, Stage, a_stage
from crash.states import API_SERVER_KILLED, LONG, SHORT, State, delete_crd, restore_crd
from harness.waiting import eventually
from testbed.faults import answer, cut_stream, on

CRD_WATCH = on("watch", "customresourcedefinitions")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with a_stage(tmp_path_factory.mktemp("outages")) as mine:
        yield mine


@pytest.mark.parametrize("state", SHORT, ids=str)
def test_it_says_what_is_wrong_waits_recovers_and_can_be_ended_meanwhile(stage: Stage, state: State) -> None:
    live_through(stage, state, seconds=4)


@pytest.mark.parametrize("state", [API_SERVER_KILLED, *LONG], ids=str)
def test_what_is_over_at_once_leaves_no_trace_and_does_not_delay_its_end(stage: Stage, state: State) -> None:
    live_past(stage, state, seconds=1)


def test_a_403_while_the_api_server_starts_does_not_make_it_deaf_to_a_crd_that_comes_back(
    stage: Stage,
) -> None:
    """For a moment after its start an API server refuses everybody: its roles are not read yet."""
    stage.ask_for("before")
    operator = stage.operator("refused", kubeconfig=stage.proxied, relist_seconds=USUAL_RELIST_SECONDS)
    try:
        operator.start()
        stage.world.wait_up_to_date(stage.pool, nodes=NODES)
        eventually(
            lambda: "customresourcedefinitions" in {each.resource for each in stage.proxy.open_watches},
            what="the CRD is watched",
        )
        with stage.proxy.add(CRD_WATCH, answer(403), first=1) as refusal:
            stage.proxy.add(CRD_WATCH, cut_stream(), nth=1)
            eventually(lambda: refusal.hits, what="the watch of the CRD is refused")
        stage.proxy.clear()
        delete_crd(stage)
        restore_crd(stage)
        stage.ask_for("after")
        stage.world.wait_up_to_date(stage.pool, nodes=NODES)
    finally:
        operator.close()
        stage.proxy.heal()
