"""Each rule of a rollout has tests, and these exist."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from harness.every import every
from unit.test_breaks import functions_of

ROOT: Final = Path(__file__).parents[2]
RULES: Final[dict[int | str, dict[str, Any]]] = yaml.safe_load((ROOT / "tests/rules.yaml").read_text())


def test_the_rules_that_a_rollout_follows_are_there_by_number() -> None:
    numbers = [each for each in RULES if isinstance(each, int)]
    assert numbers == [*range(1, 9), 12, *range(14, 31), 32]


known_in: Final = cache(functions_of)


@every("rule", RULES)
def test_each_rule_has_tests_that_exist(rule: int | str) -> None:
    tests = RULES[rule]["tests"]
    assert tests
    for each in tests:
        file, _, test = each.partition("::")
        assert test in known_in(f"tests/{file}"), each
