"""The page of what is different on Windows is what the table of rules makes."""

from __future__ import annotations

from gen.workload_rules_reference import FILE, LEFT_OUT, SECTIONS, render
from harness.documents import ROOT
from winpool.features.audit.rules import RULES


def test_the_page_is_as_generated() -> None:
    assert (ROOT / FILE).read_text(encoding="utf-8") == render(), "run: make generate"


def test_the_page_has_every_rule_once() -> None:
    assert tuple(rule for *_, rules in SECTIONS for rule in rules) == RULES
    page = render()
    assert [page.count(f"| `{rule.code}` |") for rule in RULES] == [1] * len(RULES)


def test_what_is_left_out_is_no_rule() -> None:
    left_out = [code for codes, *_ in LEFT_OUT for code in codes.split(", ")]
    assert not set(left_out) & {rule.code for rule in RULES}
    assert all(f"`{code}`" in render() for code in left_out)
