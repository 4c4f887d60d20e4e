"""What the operator owes in each of the states of ``states``, whatever it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Final

from crash.stage import LABEL, NODES, RELIST_SECONDS, USUAL_RELIST_SECONDS, Stage
from crash.states import State
from harness.operator import Operator
from harness.waiting import eventually, holds
from testbed.faults import FaultProxy

GUARD_SECONDS: Final = 100.0
"""An unanswered request is given up after 30 s, and a silent watch after 70."""
STOP_SECONDS: Final = 2.0
"""From SIGTERM to the end, in every state."""
REQUESTS_AT_ONSET: Final = 40
"""In the first seconds of a process or an outage, in which the pauses of all loops below are still short, and
aiohttp by itself asks again where a connection that was kept breaks off."""
REQUESTS_PER_SECOND: Final = 8.0
"""On average, of one operator: five loops (nodes, pools, leftovers, a pool, Kopf) that pause for 0.5 to 2 s
and try up to three times. A loop without a pause asks hundreds of times a second."""
WARNINGS: Final = 6
"""Lines at WARNING or above: one for each of those loops, and one for a loop that fails in two ways."""


def live_through(stage: Stage, state: State, *, seconds: float) -> None:
    """Have operators run into the state, and start in it; assert what all of them owe.

    Two run already and two are started in it; of each pair one is ended in the state, by SIGTERM, and
    the other has to recover by itself. Where the pool can be edited only after the state, the one that lived
    through it acts on the edit. The state lasts ``seconds`` beyond the moment at which all have
    noticed it.
    """
    world, proxy = stage.world, stage.proxy
    state.prepare(stage)
    stage.ask_for("before")
    # Without election one that has not seen the deletion of the pool yet could put back what another has just
    # released. Nodes with the record of a pool that is gone then wait for --orphan-grace-seconds.
    elects = not state.keeps_pool
    runs = stage.operator("runs", kubeconfig=stage.proxied, elects=elects)
    ends = stage.operator(
        "ends",
        kubeconfig=stage.direct,
        relist_seconds=USUAL_RELIST_SECONDS if state.ends_watches else RELIST_SECONDS,
        elects=elects,
    )
    begins = stage.operator("begins", kubeconfig=stage.direct, elects=elects)
    starts = stage.operator("starts", kubeconfig=stage.proxied, elects=elects)
    with ExitStack() as cleanup:
        for operator in (runs, ends, begins, starts):
            cleanup.callback(operator.close)
        runs.start()
        ends.start()
        world.wait_up_to_date(stage.pool, nodes=NODES)
        uid = world.get("wnp", stage.pool)["metadata"]["uid"]
        left = cleanup.enter_context(entered(stage, state))
        was = world.carried() if state.answers else {}
        since = world.now()
        begins.start(wait=False)
        hit = [runs, ends, begins] if state.hits_running else [begins]
        for operator in hit:
            wait_unready(operator, says=state.says)
        if state.can_be_edited_in:
            stage.ask_for("meanwhile")

        proxy.clear()
        holds(lambda: hit == unready_and_alive(*hit), seconds=seconds)
        assert_bounded(proxy, started=0, seconds=seconds)
        for operator in (ends, begins):
            assert_ends(operator)
        proxy.clear()
        starts.start(wait=False)
        wait_unready(starts, says="")
        hit = [runs, starts] if state.hits_running else [starts]
        holds(lambda: hit == unready_and_alive(*hit), seconds=seconds / 2)
        assert_bounded(proxy, started=1, seconds=seconds / 2)
        if state.answers:
            assert world.carried() == was

        left()
        recovers = [runs, starts]
        if not state.can_be_edited_in:
            wait_ready(*recovers)
            # Two that elect no leader undo each other's writes while one of them has not seen the edit yet.
            assert_ends(recovers.pop())
            stage.ask_for("meanwhile")
        assert_converges(stage, state, since=since, operators=recovers, uid=uid)
        for operator in (runs, ends, begins) if state.hits_running else (begins,):
            assert_one_clear_message(operator, state)


def live_past(stage: Stage, state: State, *, seconds: float) -> None:
    """Have operators run into a state, and start in it, that is over before anybody can be sure of it."""
    world = stage.world
    stage.ask_for("before")
    runs = stage.operator("runs", kubeconfig=stage.direct)
    ends = stage.operator("ends", kubeconfig=stage.direct)
    begins = stage.operator("begins", kubeconfig=stage.direct)
    with ExitStack() as cleanup:
        for operator in (runs, ends, begins):
            cleanup.callback(operator.close)
        runs.start()
        ends.start()
        world.wait_up_to_date(stage.pool, nodes=NODES)
        uid = world.get("wnp", stage.pool)["metadata"]["uid"]
        since = world.now()
        with entered(stage, state):
            begins.start(wait=False)
            eventually(lambda: begins.get("/readyz")[0] == 503, what="not ready, having seen nothing")
            holds(
                lambda: {each.get("/healthz")[0] for each in (runs, ends, begins)} == {200}, seconds=seconds
            )
            for operator in (ends, begins):
                assert_ends(operator)
        stage.ask_for("meanwhile")
        assert_converges(stage, state, since=since, operators=[runs], uid=uid)
        assert_few_messages(runs, state)
        assert_ends(runs)


@contextmanager
def entered(stage: Stage, state: State) -> Iterator[Callable[[], object]]:
    """Enter a state; yield what leaves it, which is done at the end in any case."""
    leaving = ExitStack()
    leaving.callback(state.leave, stage)
    with leaving:
        state.enter(stage)
        yield leaving.close


def wait_unready(operator: Operator, *, says: str) -> None:
    """Return when /readyz says 503 and why."""

    def told() -> bool:
        code, text = operator.get("/readyz")
        assert code == 503, f"{code} {text}"
        assert re.search(says, text), text
        return text.startswith("not ready: ")

    eventually(told, what=f"not ready, because of {says} ({operator.log_file})", seconds=GUARD_SECONDS)


def wait_ready(*operators: Operator) -> None:
    """Return when all of them say that they are ready."""
    for operator in operators:
        eventually(operator.ready, what=f"ready again ({operator.log_file})", seconds=GUARD_SECONDS)


def unready_and_alive(*operators: Operator) -> list[Operator]:
    """Return those of them that say they are alive and not ready."""
    return [each for each in operators if (each.get("/healthz")[0], each.get("/readyz")[0]) == (200, 503)]


def assert_ends(operator: Operator) -> None:
    """Assert that SIGTERM ends it in time, and properly."""
    code = operator.stop(seconds=STOP_SECONDS)
    assert code == 0, f"exit code {code}; {operator.log_file}:\n{operator.log_text()[-2000:]}"


def assert_bounded(proxy: FaultProxy, *, started: int, seconds: float) -> None:
    """Assert that the operators behind the proxy, one and those ``started`` just now, pause between tries."""
    asked = [f"{each.verb} {each.resource or each.path}" for each in proxy.log]
    allowed = (REQUESTS_PER_SECOND * seconds + REQUESTS_AT_ONSET) * (1 + started)
    assert len(asked) <= allowed, Counter(asked)


def assert_converges(
    stage: Stage, state: State, *, since: datetime, operators: list[Operator], uid: str
) -> None:
    """Assert that all come back by themselves, and that each node is written to once, for the edit."""
    world = stage.world
    wait_ready(*operators)
    world.wait_up_to_date(stage.pool, nodes=NODES)
    assert (world.get("wnp", stage.pool)["metadata"]["uid"] == uid) is state.keeps_pool
    assert {node["metadata"]["labels"].get(LABEL) for node in world.nodes().values()} == {"meanwhile"}
    written = world.patched_nodes(since=since)
    assert sorted(written) == sorted(world.nodes()), "a node was written to for something else than the edit"


def assert_one_clear_message(operator: Operator, state: State) -> None:
    """Assert that the log says what is wrong, in few lines."""
    told = assert_few_messages(operator, state)
    assert any(re.search(state.says, line) for line in told), told


def assert_few_messages(operator: Operator, state: State) -> list[str]:
    """Return the warnings in the log; assert that they are few, none of them twice, and for people."""
    lines = [line for line in operator.log_lines() if line.get("level", "ERROR") in ("WARNING", "ERROR")]
    told = [str(line["message"]) for line in lines]
    shown = "\n".join(line[:300] for line in told)
    assert len(told) <= WARNINGS, f"{len(told)} lines:\n{shown}"
    if not state.takes_rights:  # an API server that starts refuses everybody until it has read the roles
        assert not [line for line in told if re.search(r" may not | is forbidden", line)], shown
    assert len(set(told)) == len(told), f"lines that are there twice:\n{shown}"
    assert "Traceback" not in operator.log_text(), f"a traceback:\n{shown}"
    return told
