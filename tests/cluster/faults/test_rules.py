"""Which requests a rule acts on."""

from __future__ import annotations

import pytest

from cluster.faults.client import MAPS, Client
from testbed.faults import WRITES, FaultProxy, Record, answer, call, on


def test_a_rule_acts_on_what_matches_and_on_nothing_else(
    proxy: FaultProxy, client: Client, name: str
) -> None:
    rules = [
        proxy.add(on("patch", "configmaps", name=name, namespace="faults"), answer(409)),
        proxy.add(on(WRITES, "configmaps/status"), answer(500)),
        proxy.add(on(path=r"limit=7\b"), answer(429)),
        proxy.add(on(user_agent="^other/"), answer(503)),
        proxy.add(on("patch", where=lambda record: b"poison" in record.body), answer(422)),
    ]
    assert client.patch(name, "new").status == 409
    assert client.patch(f"{name}-2", "new").status == 404
    assert client.patch(f"{name}-2", "poison").status == 422
    assert client.get(f"{MAPS}/{name}").status == 200
    assert client.get(f"{MAPS}?limit=7").status == 429
    assert client.get(f"{MAPS}?limit=70").status == 200
    assert client.ask("GET", MAPS, headers={"User-Agent": "other/1"}).status == 503
    assert [rule.hits for rule in rules] == [1, 0, 1, 1, 1]
    assert [record.actions for record in proxy.log if record.actions] == [
        ("answer 409 before",), ("answer 422 before",), ("answer 429 before",), ("answer 503 before",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ({"nth": 3}, [200, 200, 409, 200, 200, 200]),
        ({"every": 2}, [200, 409, 200, 409, 200, 409]),
        ({"first": 2}, [409, 409, 200, 200, 200, 200]),
        ({}, [409] * 6),
    ],
    ids=["nth", "every", "first", "all"],
)
def test_a_rule_acts_by_count(
    proxy: FaultProxy, client: Client, name: str, count: dict[str, int], expected: list[int]
) -> None:
    proxy.add(on("patch", "configmaps", name=name), answer(409), **count)
    assert [client.patch(name, str(number)).status for number in range(6)] == expected


def test_rules_act_together_until_removed(proxy: FaultProxy, client: Client, name: str) -> None:
    seen: list[Record] = []
    proxy.add(on("patch"), call(seen.append))
    with proxy.add(on("patch"), answer(409)):
        assert client.patch(name, "new").status == 409
    assert client.patch(name, "new").status == 200
    proxy.heal()
    assert client.patch(name, "newer").status == 200
    assert [record.number for record in seen] == [1, 2]
