"""Getting the token that kubelets are shown, where a right or the account is missing."""

from __future__ import annotations

from typing import Final

import pytest

from cluster.memory_world import watching_operator
from cluster.reader import ACCOUNT, RIGHTS, asked
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.keys import NAMESPACE, READER_ACCOUNT

PATIENCE_SECONDS: Final = 180.0
"""The operator asks once a minute for what is missing."""

RULE = (
    'Add the rule {apiGroups: [""], resources: ["serviceaccounts/token"],'
    f' resourceNames: ["{READER_ACCOUNT}"], verbs: ["create"]}} to a Role in namespace {NAMESPACE}'
)
NO_ACCOUNT = f"The ServiceAccount {NAMESPACE}/{READER_ACCOUNT} does not exist."


def test_the_rule_and_then_the_account_that_are_missing_are_named(testbed: Testbed) -> None:
    # Another test may have taken back the right a moment ago.
    eventually(lambda: RULE in asked(testbed)[1], what="the rule is missing")
    testbed.kubectl("apply", "-f", RIGHTS)
    try:
        eventually(lambda: asked(testbed)[1].startswith(NO_ACCOUNT), what="the account is missing")
        testbed.kubectl("apply", "-f", ACCOUNT)
        token, problem = asked(testbed)
        assert token
        assert problem == ""
    finally:
        testbed.kubectl("delete", "--ignore-not-found", "-f", RIGHTS, "-f", ACCOUNT)


@pytest.mark.nightly
def test_a_pool_that_reads_kubelets_says_what_is_missing_until_it_is_there(world: World) -> None:
    world.fleet(windows=1)
    pool = world.apply(world.pool(memoryPressure={"mode": "Signal"}))
    world.operator.close()
    world.operator = watching_operator(world)
    world.operator.start()

    def accepted() -> tuple[str, str]:
        condition = world.condition(pool, "Accepted")
        return condition.get("reason", ""), condition.get("message", "")

    def is_missing(said: str) -> bool:
        reason, message = accepted()
        return reason == "MissingPermission" and said in message

    eventually(lambda: is_missing(RULE), what="the rule is missing")
    world.kubectl("apply", "-f", RIGHTS)
    try:
        eventually(lambda: is_missing(NO_ACCOUNT), what="the account is missing", seconds=PATIENCE_SECONDS)
        world.kubectl("apply", "-f", ACCOUNT)
        eventually(lambda: accepted()[0] == "Accepted", what="nothing is missing", seconds=PATIENCE_SECONDS)
        assert world.reasons(kind="WindowsNodePool", name=pool).count("MissingPermission") >= 1
    finally:
        world.kubectl("delete", "--ignore-not-found", "-f", RIGHTS, "-f", ACCOUNT)
