"""What is counted of the requests to kubelets, and what makes their answers larger."""

from __future__ import annotations

import json

import msgspec

from testbed.winsim.endpoint.furtherpods import FurtherPods
from testbed.winsim.endpoint.summary import summary
from testbed.winsim.endpoint.tally import Tally
from unit.winsim.endpoint.scenes import NOW, a_scene


def test_requests_are_counted_by_path_and_those_of_a_node_at_once_by_node() -> None:
    tally = Tally()
    with tally.answering("/stats/summary", node="a"), tally.answering("/stats/summary", node="b"):
        assert tally.most_of_a_node == 1
        with tally.answering("/configz", node="a"):
            pass
    with tally.answering("/etc/passwd", node="a"), tally.answering("/", node="b"):
        pass
    assert tally.requests == {"/stats/summary": 2, "/configz": 1, "other": 2}
    assert tally.most_of_a_node == 2


def test_a_request_that_breaks_off_is_under_way_no_more() -> None:
    tally = Tally()
    for _ in range(3):
        try:
            with tally.answering("/healthz", node="a"):
                raise ConnectionResetError
        except ConnectionResetError:
            pass
    assert (tally.requests["/healthz"], tally.most_of_a_node) == (3, 1)


def test_further_pods_make_an_answer_as_large_as_that_of_a_node_in_use_and_change_nothing_else() -> None:
    scene = a_scene()
    few = json.loads(msgspec.json.encode(summary(scene)))
    body = msgspec.json.encode(summary(scene, further=FurtherPods(14).stats(scene)))
    many = json.loads(body)
    assert len(body) > 15_000
    assert len({each["podRef"]["uid"] for each in many["pods"]}) == len(few["pods"]) + 14
    assert (many["node"], many["pods"][: len(few["pods"])]) == (few["node"], few["pods"])


def test_their_times_advance_with_those_of_the_node() -> None:
    pods = FurtherPods(1)
    (before,) = pods.stats(a_scene())
    (same,) = pods.stats(a_scene(now=NOW + 0.5))
    (after,) = pods.stats(a_scene(now=NOW + 60, current=a_scene().behind(-60).current))
    assert same is before
    assert after.memory is not None
    assert before.memory is not None
    assert (before.memory.time, after.memory.time) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")


def test_without_any_there_is_none() -> None:
    assert FurtherPods(0).stats(a_scene()) == ()
