"""The directory of a testbed, its ports, and the small things around them."""

import contextlib
import os
import socket
from pathlib import Path

import pytest

from testbed import control, ports, progress
from testbed.errors import TestbedError, tail
from testbed.paths import Layout, cache_directory, write_atomically
from testbed.process import describe_exit, find, start_time
from testbed.state import State
from testbed.waiting import wait_until


def test_a_missing_or_empty_directory_may_become_a_testbed(tmp_path: Path) -> None:
    assert Layout(tmp_path / "missing").is_ours()
    assert Layout(tmp_path).is_ours()


def test_a_directory_of_somebody_else_may_not(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert not Layout(tmp_path).is_ours()
    file = tmp_path / "file"
    file.touch()
    assert not Layout(file).is_ours()


def test_what_a_start_left_that_died_early_is_ours(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.lock.touch()
    layout.supervisor_log.touch()
    assert layout.is_ours()


def test_clearing_leaves_what_is_not_a_testbeds(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.etcd.mkdir()
    layout.token.touch()
    note = tmp_path / "note.txt"
    note.touch()
    layout.clear()
    assert list(tmp_path.iterdir()) == [note]


def test_a_file_is_replaced_whole_with_the_mode_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_atomically(path, "old")
    reader = path.open()
    with reader:
        write_atomically(path, "new and longer")
        assert reader.read() == "old"
    assert path.read_text() == "new and longer"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WINPOOL_CACHE": "/c"}, "/c"),
        ({"WINPOOL_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/winpool"),
        ({"WINPOOL_CACHE": "", "HOME": "/h"}, "/h/.cache/winpool"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("WINPOOL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(expected)


def test_reserved_ports_are_distinct_free_and_below_those_of_outgoing_connections() -> None:
    first, second = ports.reserve(), ports.reserve()
    try:
        numbers = [*first.ports.model_dump().values(), *second.ports.model_dump().values()]
        assert len(set(numbers)) == 16
        assert all(ports.FIRST_PORT <= number < ports.LAST_PORT for number in numbers)
        for number in numbers:
            with contextlib.closing(socket.create_server(("127.0.0.1", number))):
                pass
    finally:
        first.release()
        second.release()


def test_a_block_is_kept_until_released_and_shunned_when_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LAST_PORT", ports.FIRST_PORT + ports.BLOCK)
    monkeypatch.setattr(ports, "FIRST_PORT", ports.FIRST_PORT)
    only = ports.reserve()
    with pytest.raises(TestbedError, match="no free block"):
        ports.reserve()
    only.release()
    with (
        contextlib.closing(socket.create_server(("127.0.0.1", only.ports.scheduler))),
        pytest.raises(TestbedError, match="no free block"),
    ):
        ports.reserve()
    ports.reserve().release()


def test_a_socket_path_of_any_length_has_an_address(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, control.address(deep / "control.sock") as name:
        listener.bind(name)
    assert (deep / "control.sock").is_socket()


def test_nobody_at_the_socket_is_an_error_with_the_supervisors_last_words(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.supervisor_log.write_text("ran out of luck\n")
    with pytest.raises(TestbedError, match=r"(?s)does not answer.*ran out of luck"):
        control.Control(layout).status()


def test_a_state_file_of_another_make_is_refused_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert State.read(layout) is None
    layout.state.write_text('{"pid": "many"}')
    with pytest.raises(TestbedError, match=r"state\.json is not the state file"):
        State.read(layout)


@pytest.mark.parametrize(
    ("returncode", "text"), [(0, "exit code 0"), (2, "exit code 2"), (-9, "SIGKILL"), (-250, "signal 250")]
)
def test_an_exit_status_in_words(returncode: int, text: str) -> None:
    assert describe_exit(returncode) == text


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert "no log" in tail(log)
    log.write_bytes(b"one\ntwo\n\xff three\n")
    assert tail(log, lines=2) == "  two\n  � three"


def test_plain_progress_is_a_line_every_five_percent() -> None:
    lines: list[str] = []
    advance = progress.plain("compiling", total=1000, report=lines.append)
    for done in range(1, 1001):
        advance(done, f"package {done}")
    assert len(lines) == 21
    assert lines[0] == "compiling:   0 % (1 of 1000) package 1"
    assert lines[-1] == "compiling: 100 % (1000 of 1000) package 1000"


def test_waiting_in_vain_says_for_what_and_why() -> None:
    with pytest.raises(TestbedError, match="waiting for rain; the sky is blue"):
        wait_until(lambda: False, what="rain", timeout_seconds=0, explain=lambda: "; the sky is blue")


def test_waiting_ends_with_the_outcome() -> None:
    answers = iter([False, True])
    wait_until(lambda: next(answers), what="the second answer", timeout_seconds=10)
    assert next(answers, None) is None


def test_this_process_is_itself_and_no_other() -> None:
    started = start_time(os.getpid())
    assert find(os.getpid(), started=started) is not None
    assert find(os.getpid(), started=started - 60) is None
