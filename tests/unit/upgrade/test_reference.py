"""The page of gates is what the table of gates makes."""

from __future__ import annotations

from gen.gates_reference import FILE, render
from harness.documents import ROOT
from winpool.api.upgrade import Gate


def test_the_page_is_as_generated() -> None:
    assert (ROOT / FILE).read_text(encoding="utf-8") == render(), "run: make generate"


def test_the_page_has_every_gate() -> None:
    assert [gate for gate in Gate if f"| `{gate}` |" in render()] == list(Gate)
