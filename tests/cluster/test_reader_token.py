"""Getting the token that kubelets are shown, where a right or the account is missing."""

from __future__ import annotations

from cluster.reader import ACCOUNT, RIGHTS, asked
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.keys import NAMESPACE, READER_ACCOUNT

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
