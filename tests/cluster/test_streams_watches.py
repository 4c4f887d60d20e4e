"""Watches that break off, and those that are told to be too old: nothing is lost, nothing flaps (P1, P4)."""

from __future__ import annotations

import pytest

from harness.streams import NODES_WATCH, POOLS, POOLS_WATCH, Stage
from testbed.faults import answer, cut, cut_stream, error_line, insert


def test_a_cut_watch_of_nodes_goes_on_though_its_first_tries_fail(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(NODES_WATCH, cut(), first=2)
        stage.proxy.add(NODES_WATCH, cut_stream(), nth=1)
        stage.drift(name)
    assert len([each for each in stage.proxy.log if each.actions == ("cut before",)]) == 2


def test_a_cut_watch_of_pools_hears_of_an_edit_made_meanwhile(stage: Stage) -> None:
    stage.wait_watching(POOLS)
    stage.proxy.add(POOLS_WATCH, cut(), first=2)
    stage.proxy.add(POOLS_WATCH, cut_stream(), nth=1)
    stage.wait_heard()


def test_a_watch_cut_in_mid_line_loses_nothing(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        rules = [
            stage.proxy.add(NODES_WATCH, cut_stream(in_line=True), nth=1),
            stage.proxy.add(NODES_WATCH, cut_stream(in_line=True, clean=True), nth=2),
        ]
        stage.drift(name)
    assert [rule.hits for rule in rules] == [1, 1]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_410_in_the_stream_lists_anew(stage: Stage, times: int) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.add(match, insert(error_line(410)), first=times)
            stage.proxy.add(match, cut_stream(clean=True), first=times)  # as the API server ends it then
        stage.drift(name)
    assert len(stage.requests("list", "nodes")) == times


def test_410_as_a_status_lists_anew(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.add(match, answer(410), first=1)
            stage.proxy.add(match, cut_stream(), nth=1)
        stage.drift(name)
    assert len(stage.requests("list", "nodes")) == 1
