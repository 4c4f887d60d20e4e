"""The page of why nodes do not work is what the table of rules makes."""

from __future__ import annotations

from gen.node_rules_reference import FILE, LEFT_OUT, render
from harness.documents import ROOT
from winpool.features.diagnose.rules import RULES


def test_the_page_is_as_generated() -> None:
    assert (ROOT / FILE).read_text(encoding="utf-8") == render(), "run: make generate"


def test_what_is_left_out_is_no_rule() -> None:
    left_out = {code for codes, *_ in LEFT_OUT for code in codes.split(", ")}
    assert not left_out & {rule.code for rule in RULES}
