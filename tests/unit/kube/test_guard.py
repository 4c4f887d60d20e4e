"""When the guard is in force: what stands, for how long it has stood, and what is known of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.builders import NOON
from harness.clock import Seconds
from harness.scripted_transport import ScriptedTransport, gaps
from harness.virtual_time import in_virtual_time, running
from winpool.api.admission import (
    API_GROUP,
    API_VERSION,
    BINDING_KIND,
    GUARD_NAME,
    POLICY_KIND,
    binding_spec,
    policy_spec,
)
from winpool.kube.client import Transport
from winpool.kube.control_plane import (
    NOT_YET,
    SETTLE_SECONDS,
    SETTLING,
    STALE,
    STALE_SECONDS,
    START_SECONDS,
    Guard,
    identity_of,
    problem_of,
)
from winpool.kube.errors import Forbidden
from winpool.kube.request import Request
from winpool.kube.watch import NamedObject

POLICY = NamedObject(
    name=GUARD_NAME,
    uid="p",
    resource_version="5",
    generation=1,
    spec=policy_spec(),
    changed=NOON - timedelta(hours=1),
)
BINDING = replace(POLICY, uid="b", spec=binding_spec())
REFUSED = Forbidden("winpool may not list validatingadmissionpolicies", status=403)


class Scene:
    """A guard that does not run: a test says what its watches have seen, and what time it is."""

    def __init__(self, clock: Seconds) -> None:
        self.clock = clock
        self.changes = 0
        self.others_silent = 0.0
        self.guard = Guard(
            cast("Transport", SimpleNamespace(request=None)),
            on_change=self._note,
            others_silent_seconds=lambda: self.others_silent,
            now=self._now,
            monotonic=clock,
        )
        self.guard._started = clock()
        self._zero = clock()

    def see(self, policy: NamedObject | None, binding: NamedObject | None) -> None:
        """Both were listed and are watched."""
        for watch, found in ((self.guard._policy, policy), (self.guard._binding, binding)):
            watch._store.keep_only(())
            if found is not None:
                watch._store.put(found)
            watch.synced, watch.refusal, watch.failing = True, None, None
        self.judge()

    def judge(self, *, after: float = 0.0) -> None:
        self.clock.now += after
        self.guard._judge()

    def _note(self) -> None:
        self.changes += 1

    def _now(self) -> datetime:
        return NOON + timedelta(seconds=self.clock() - self._zero)


@pytest.fixture
def scene(clock: Seconds) -> Scene:
    return Scene(clock)


def test_it_is_in_force_where_both_are_as_shipped() -> None:
    assert problem_of(POLICY, BINDING) == ""


def changed(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**spec, **more}


@pytest.mark.parametrize(
    ("policy", "binding", "said"),
    [
        pytest.param(None, BINDING, "there is no ValidatingAdmissionPolicy winpool-guard", id="no policy"),
        pytest.param(POLICY, None, "no ValidatingAdmissionPolicyBinding winpool-guard", id="no binding"),
        pytest.param(
            replace(POLICY, spec=changed(policy_spec(), validations=[])), BINDING, "is not the one",
            id="validations",
        ),
        pytest.param(
            replace(POLICY, spec=changed(policy_spec(), failurePolicy="Ignore")), BINDING, "is not the one",
            id="failurePolicy",
        ),
        pytest.param(
            replace(POLICY, spec=changed(policy_spec(), paramKind={"apiVersion": "v1", "kind": "ConfigMap"})),
            BINDING, "is not the one", id="a field more",
        ),
        pytest.param(
            POLICY, replace(BINDING, spec=changed(binding_spec(), validationActions=["Audit", "Warn"])),
            "does not deny", id="audit",
        ),
        pytest.param(
            POLICY, replace(BINDING, spec=changed(binding_spec(), validationActions="Deny")), "does not deny",
            id="no list",
        ),
        pytest.param(
            POLICY,
            replace(BINDING, spec=changed(binding_spec(), matchResources={"objectSelector": {}})),
            "Binding winpool-guard is not", id="matchResources",
        ),
    ],
)  # fmt: skip
def test_anything_else_is_no_guard_and_says_why(
    policy: NamedObject | None, binding: NamedObject | None, said: str
) -> None:
    assert said in problem_of(policy, binding)


def test_further_actions_beside_deny_do_no_harm() -> None:
    more = replace(BINDING, spec=changed(binding_spec(), validationActions=["Deny", "Audit"]))
    assert problem_of(POLICY, more) == ""


def test_a_guard_that_was_changed_or_replaced_is_another_one() -> None:
    others = [
        (replace(POLICY, generation=2), BINDING),
        (replace(POLICY, uid="p2"), BINDING),
        (POLICY, replace(BINDING, generation=2)),
        (POLICY, replace(BINDING, uid="b2")),
    ]
    identities = {identity_of(POLICY, BINDING), *(identity_of(*each) for each in others)}
    assert len(identities) == 5


def test_nothing_is_known_before_a_look_and_that_is_waited_for(scene: Scene) -> None:
    scene.judge(after=START_SECONDS - 1)
    assert (scene.guard.known, scene.guard.identity, scene.guard.problem) == (False, "", NOT_YET)


def test_but_not_for_ever(scene: Scene) -> None:
    scene.judge(after=START_SECONDS)
    assert (scene.guard.known, scene.guard.identity, scene.guard.problem) == (True, "", NOT_YET)
    assert scene.changes == 1


def test_one_that_has_stood_for_long_counts_at_once(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    assert (scene.guard.known, scene.guard.problem) == (True, "")
    assert scene.guard.identity == identity_of(POLICY, BINDING)


@pytest.mark.parametrize("changed", [NOON - timedelta(seconds=1), NOON + timedelta(hours=1), None], ids=str)
def test_one_that_is_young_or_does_not_tell_its_age_counts_once_it_is_settled(
    scene: Scene, changed: datetime | None
) -> None:
    scene.see(POLICY, replace(BINDING, changed=changed))
    assert (scene.guard.known, scene.guard.identity, scene.guard.problem) == (False, "", SETTLING)
    scene.judge(after=SETTLE_SECONDS)
    assert (scene.guard.known, scene.guard.problem) == (True, "")
    assert scene.guard.identity


def test_one_that_comes_before_our_eyes_is_given_time_whatever_its_own_clock_says(scene: Scene) -> None:
    scene.see(None, BINDING)
    assert scene.guard.known
    scene.see(POLICY, BINDING)
    assert scene.guard.problem == SETTLING
    scene.judge(after=SETTLE_SECONDS - 1)
    assert scene.guard.identity == ""
    scene.judge(after=1)
    assert scene.guard.identity == identity_of(POLICY, BINDING)


def test_one_that_is_changed_stops_at_once_and_comes_back_as_another(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    first = scene.guard.identity
    scene.see(replace(POLICY, generation=2, spec={}), BINDING)
    assert scene.guard.identity == ""
    scene.see(replace(POLICY, generation=3), BINDING)
    scene.judge(after=SETTLE_SECONDS)
    assert scene.guard.identity not in ("", first)


def test_one_that_was_replaced_while_nobody_looked_is_given_time_too(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    scene.see(replace(POLICY, uid="p2"), BINDING)
    assert (scene.guard.identity, scene.guard.problem) == ("", SETTLING)


def test_without_the_right_to_look_it_is_not_in_force_and_the_rule_is_named(scene: Scene) -> None:
    scene.guard._policy.refusal = REFUSED
    scene.judge()
    assert (scene.guard.known, scene.guard.identity) == (True, "")
    assert scene.guard.problem == REFUSED.message


def test_one_that_can_be_looked_at_again_and_is_the_same_counts_at_once(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    scene.guard._policy.refusal = REFUSED
    scene.judge(after=3600)
    assert scene.guard.identity == ""
    scene.see(POLICY, BINDING)
    assert scene.guard.identity == identity_of(POLICY, BINDING)


def test_one_that_cannot_be_looked_at_while_nodes_can_is_not_in_force_after_a_while(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    scene.guard._binding.failing = scene.clock()
    scene.judge(after=STALE_SECONDS)
    assert scene.guard.identity
    scene.judge(after=1)
    assert (scene.guard.identity, scene.guard.problem) == ("", STALE)


def test_where_nothing_of_the_api_server_is_heard_all_stays_as_last_seen(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    scene.guard._policy.failing = scene.clock()
    scene.others_silent = 3601
    scene.judge(after=3600)
    assert scene.guard.identity == identity_of(POLICY, BINDING)


def test_only_changes_are_told(scene: Scene) -> None:
    scene.see(POLICY, BINDING)
    for _ in range(3):
        scene.judge(after=60)
    assert scene.changes == 1


class Lists(ScriptedTransport):
    """Has policy and binding as shipped; ``listed_by`` says when each was listed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.listed_by: dict[str, list[float]] = {POLICY_KIND: [], BINDING_KIND: []}

    async def request(self, request: Request) -> bytes:
        kind = BINDING_KIND if "/validatingadmissionpolicybindings" in request.path else POLICY_KIND
        self.listed_by[kind].append(self.time)
        spec = binding_spec() if kind == BINDING_KIND else policy_spec()
        metadata = {"name": GUARD_NAME, "uid": kind, "generation": 1, "resourceVersion": "5"}
        items = [{"metadata": metadata, "spec": spec}]
        listed = {"kind": f"{kind}List", "apiVersion": f"{API_GROUP}/{API_VERSION}", "items": items}
        return json.dumps({**listed, "metadata": {"resourceVersion": "10"}}).encode()


@in_virtual_time
async def test_policy_and_binding_are_each_listed_once_in_ten_minutes_and_no_more_often() -> None:
    """P2."""
    server = Lists(lists=[])
    guard = Guard(
        cast("Transport", server),
        on_change=lambda: None,
        others_silent_seconds=lambda: 0.0,
        now=lambda: NOON,
        monotonic=asyncio.get_running_loop().time,
    )
    async with running(guard.run()):
        await asyncio.sleep(24 * 3600)
    assert guard.identity
    for times in server.listed_by.values():
        assert len(times) > 24
        assert min(gaps(times)) >= 10 * 60
