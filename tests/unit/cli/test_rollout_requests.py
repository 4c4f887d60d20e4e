"""``rollout pause``, ``resume`` and ``abort``: which change of a pool they ask for, and in whose name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from winpool.cli.kubectl import Kubectl, KubectlError
from winpool.cli.parsing import EndError
from winpool.cli.rollout_requests import MANAGER, change_of, owner_of, request

PATH = "/spec/upgrade/pauseRequests"
SRE = {"owner": "sre", "reason": "incident 4711"}
JANE = {"owner": "jane"}


def a_pool(*requests: dict[str, str], **upgrade: Any) -> dict[str, Any]:
    asked = {"pauseRequests": list(requests)} if requests else {}
    return {"metadata": {"name": "win"}, "spec": {"upgrade": {**asked, **upgrade}}}


@pytest.mark.parametrize(
    ("pool", "entry", "change"),
    [
        (
            a_pool(),
            SRE,
            [{"op": "test", "path": PATH, "value": None}, {"op": "add", "path": PATH, "value": [SRE]}],
        ),
        (a_pool(JANE), SRE, [{"op": "add", "path": f"{PATH}/-", "value": SRE}]),
        (a_pool(pauseRequests=[]), SRE, [{"op": "add", "path": f"{PATH}/-", "value": SRE}]),
        (
            a_pool(JANE, {"owner": "sre"}),
            SRE,
            [
                {"op": "test", "path": f"{PATH}/1/owner", "value": "sre"},
                {"op": "replace", "path": f"{PATH}/1", "value": SRE},
            ],
        ),
        (
            a_pool(SRE, JANE),
            None,
            [
                {"op": "test", "path": f"{PATH}/0/owner", "value": "sre"},
                {"op": "remove", "path": f"{PATH}/0"},
            ],
        ),
        (a_pool(SRE), SRE, []),
        (a_pool(JANE), None, []),
    ],
    ids=[
        "the first",
        "beside another",
        "an empty list",
        "changed",
        "removed",
        "there already",
        "gone already",
    ],
)
def test_only_the_entry_of_the_owner_changes(
    pool: dict[str, Any], entry: dict[str, str] | None, change: list[dict[str, Any]]
) -> None:
    assert change_of(pool, "sre", entry) == change


def test_a_pool_without_upgrades_is_not_paused() -> None:
    with pytest.raises(EndError, match=r"the pool win has no spec\.upgrade"):
        change_of({"metadata": {"name": "win"}, "spec": {}}, "sre", SRE)


class Answers(Kubectl):
    """Stands for kubectl: gives these answers, one after the other, and remembers what it was asked."""

    def __init__(self, *answers: str | KubectlError) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def run(self, *arguments: str) -> bytes:
        self.asked.append(arguments)
        answer = self.answers.pop(0)
        if isinstance(answer, KubectlError):
            raise answer
        return answer.encode()

    def get(self, path: str, **_: str) -> bytes:
        return self.run("get", path)


@pytest.mark.parametrize(
    ("user", "owner"),
    [
        ("jane", "jane"),
        ("oidc:jane@example.com", "oidc-jane-example.com"),
        ("system:serviceaccount:ci:deployer", "system-serviceaccount-ci-deployer"),
        ("-.-", MANAGER),
        ("x" * 80, "x" * 63),
        ("", MANAGER),
    ],
)
def test_the_owner_is_the_user_in_the_letters_that_an_owner_may_have(user: str, owner: str) -> None:
    answer = json.dumps({"status": {"userInfo": {"username": user}}})
    assert owner_of(Answers(answer), None) == owner
    assert owner_of(Answers(), "sre") == "sre"


def test_where_the_user_is_not_known_the_plugin_is_the_owner() -> None:
    unknown = KubectlError('error: unknown command "whoami"')
    assert owner_of(Answers(unknown), None) == MANAGER


def test_a_change_that_others_were_quicker_than_is_made_again_from_what_is_there() -> None:
    refused = KubectlError("The request is invalid: the server rejected our request due to an error in it")
    before, after = json.dumps(a_pool()), json.dumps(a_pool(JANE))
    done = json.dumps(a_pool(JANE, SRE))
    kubectl = Answers(before, refused, after, done)
    assert request(kubectl, "win", "sre", SRE) == a_pool(JANE, SRE)
    assert json.loads(kubectl.asked[-1][-1]) == [{"op": "add", "path": f"{PATH}/-", "value": SRE}]
    kubectl = Answers(before, refused, before, refused, before, refused)
    with pytest.raises(KubectlError, match="The request is invalid"):
        request(kubectl, "win", "sre", SRE)
