"""What can be done to the lines of a watch."""

from __future__ import annotations

import http.client
import json
import threading
import time

import pytest

from cluster.faults.client import GUARD_SECONDS, Client, MakeClient, label, read, step_of
from testbed.cluster import Testbed
from testbed.faults import (
    FaultProxy,
    alter,
    bookmark_line,
    cut_stream,
    drop,
    error_line,
    event,
    insert,
    on,
    replay,
    silence,
)


def test_a_stream_is_cut_at_once(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        rule = proxy.add(on("watch", "configmaps", name=name), cut_stream())
        with pytest.raises(http.client.IncompleteRead):
            watch.read()
    record = proxy.wait_for(lambda each: each.done)
    assert (record.actions, record.lines, rule.hits) == (("cut stream",), 1, 1)


@pytest.mark.parametrize("clean", [False, True], ids=["broken", "clean"])
@pytest.mark.parametrize("in_line", [False, True], ids=["between", "in-line"])
def test_a_stream_is_cut_after_lines(
    testbed: Testbed, proxy: FaultProxy, make_client: MakeClient, name: str, *, clean: bool, in_line: bool
) -> None:
    proxy.add(on("watch"), cut_stream(after_lines=1, in_line=in_line, clean=clean), nth=1)
    with make_client().watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        if in_line:
            label(testbed, name, "a")
        if clean:
            rest = watch.read()
        else:
            with pytest.raises(http.client.IncompleteRead) as broken:
                watch.read()
            rest = broken.value.partial
    assert rest.startswith(b'{"type":"MODIFIED"') is in_line
    assert not rest.endswith(b"\n")
    with make_client().watch(f"&fieldSelector=metadata.name={name}") as watch:  # which is left alone
        assert read(watch)["type"] == "ADDED"


def test_silence_keeps_the_connection_and_loses_nothing(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    got: list[tuple[str, str]] = []
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        rule = proxy.add(on("watch"), silence())
        thread = threading.Thread(target=lambda: got.extend(step_of(read(watch)) for _ in range(3)))
        thread.start()
        for text in ("a", "b", "c"):
            label(testbed, name, text)
        time.sleep(0.3)  # lines take a millisecond; this is to give a fault the time to show
        assert got == []
        assert [record.lines for record in proxy.open_watches] == [1]
        rule.release()
        thread.join(timeout=GUARD_SECONDS)
    assert got == [("MODIFIED", "a"), ("MODIFIED", "b"), ("MODIFIED", "c")]


def test_a_silent_stream_can_be_cut_and_told(proxy: FaultProxy, client: Client, name: str) -> None:
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        proxy.add(on("watch"), silence())
        proxy.add(on("watch"), insert(b"still here"))
        assert watch.readline() == b"still here\n"
        proxy.add(on("watch"), cut_stream(clean=True))
        assert watch.read() == b""


def test_lines_are_inserted(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    expired, mark = error_line(410), bookmark_line("77", kind="ConfigMap")
    proxy.add(on("watch"), insert(expired))
    proxy.add(on("watch"), insert(mark, after_lines=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        error = read(watch)
        assert (error["type"], error["object"]["code"], error["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        assert read(watch)["type"] == "ADDED"
        label(testbed, name, "a")
        assert step_of(read(watch)) == ("MODIFIED", "a")
        seen = read(watch)
        assert (seen["type"], seen["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": "77"})
        proxy.add(on("watch"), insert(b"\x00 garbage"))
        assert watch.readline() == b"\x00 garbage\n"


def test_lines_are_altered_and_dropped(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    changed = event("MODIFIED", name=name)
    proxy.add(on("watch"), drop(where=changed, nth=2))
    proxy.add(on("watch"), alter(lambda line: line.replace(b"MODIFIED", b"UNHEARD"), where=changed, nth=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        for text in "abcd":
            label(testbed, name, text)
        seen = [step_of(read(watch)) for _ in range(3)]
    assert seen == [("MODIFIED", "a"), ("UNHEARD", "c"), ("MODIFIED", "d")]
    assert proxy.log[0].actions == ("drop", "alter")


def test_a_line_of_megabytes_passes(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    big = b" " * 3_000_000
    proxy.add(on("watch"), alter(lambda line: line.replace(b"{", b"{" + big, 1), nth=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        label(testbed, name, "a")
        line = watch.readline()
    assert len(line) > len(big)
    assert step_of(json.loads(line)) == ("MODIFIED", "a")


def test_lines_are_sent_once_more(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    proxy.add(on("watch"), replay(after_lines=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        label(testbed, name, "a")
        label(testbed, name, "b")
        seen = [step_of(read(watch)) for _ in range(4)]
    assert seen == [("MODIFIED", "a"), ("ADDED", ""), ("MODIFIED", "a"), ("MODIFIED", "b")]
