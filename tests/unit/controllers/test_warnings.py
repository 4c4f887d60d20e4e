"""Warnings of pods that a taint will have deleted: once for each taint and node, before its write."""

from __future__ import annotations

from typing import Any, cast

from winpool.controllers.status import Announcer
from winpool.kube.events import EventRecorder
from winpool.status.pods import Deletion, Deletions

HARSH, SECOND = "os=windows:NoExecute", "gpu:NoExecute"


class Recorder:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def record(self, event: Any, *, budget: str, is_warning: bool) -> None:
        assert (budget, is_warning) == ("pool", True)
        self.notes.append(event.note)


def coming(*keys: tuple[str, str], lacking: str = "abc") -> Deletions:
    """Return that these taints are about to have a pod deleted on these nodes."""
    return Deletions(
        "pool",
        "uid",
        {},
        coming={key: Deletion(key[0], 1, f"shop/web-{key[1]}") for key in keys},
        lacking=frozenset(lacking),
    )


def test_each_taint_is_warned_of_once_for_each_node() -> None:
    recorder = Recorder()
    announcer = Announcer(cast("EventRecorder", recorder), "pool")
    announcer.warn(coming((HARSH, "a"), (HARSH, "b")))
    announcer.warn(coming((HARSH, "a"), (HARSH, "b")))
    assert len(recorder.notes) == 1
    announcer.warn(coming((HARSH, "a"), (SECOND, "a")))
    assert len(recorder.notes) == 2
    assert SECOND in recorder.notes[1]
    announcer.warn(coming(lacking="abc"))
    announcer.warn(coming((HARSH, "a"), (HARSH, "c")))
    assert len(recorder.notes) == 3
    assert "shop/web-c" in recorder.notes[2]
    assert "1 pod on 1 node" in recorder.notes[2]


def test_a_node_that_has_got_the_taint_or_may_not_be_written_is_warned_of_anew() -> None:
    recorder = Recorder()
    announcer = Announcer(cast("EventRecorder", recorder), "pool")
    announcer.warn(coming((HARSH, "a"), (HARSH, "b")))
    announcer.forget_warnings({"a"})
    announcer.warn(coming((HARSH, "a"), (HARSH, "b")))
    assert len(recorder.notes) == 2
    announcer.warn(coming(lacking=""))
    announcer.warn(coming((HARSH, "b")))
    assert len(recorder.notes) == 3
