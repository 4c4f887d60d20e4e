"""How kubectl is run: the first call alone and live, others beside each other; what is made of errors.

A program of the test is in the place of kubectl. What the real one says is in ``tests/cluster``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from winpool.cli import kubectl as module
from winpool.cli.kubectl import (
    AT_ONCE,
    Kubectl,
    KubectlError,
    NoSuchPoolError,
    NotAskedError,
    complete,
    decoded,
)
from winpool.cli.parsing import FlagError, shown, split

GUARD_SECONDS = 60.0
LISTENS = "echo 'Forwarding from 127.0.0.1:4711 -> 8080'"


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what makes a kubectl of these lines of shell, and returns its folder."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(lines: str) -> Path:
        program = tmp_path / "kubectl"
        program.write_text(
            f'#!/bin/sh\nFOLDER={tmp_path}\necho $$ > $FOLDER/pid\necho "$*" >> $FOLDER/calls\n{lines}\n'
        )
        program.chmod(0o755)
        return tmp_path

    return make


def lives(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def until(check: Callable[[], object]) -> None:
    end = time.monotonic() + GUARD_SECONDS
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


# Flags


@pytest.mark.parametrize(
    ("arguments", "flags", "others"),
    [
        (["status", "--context", "a", "-w"], ["--context=a"], ["status", "-w"]),
        (
            ["--as=x", "status", "--as-group=a", "--as-group", "b"],
            ["--as=x", "--as-group=a", "--as-group=b"],
            ["status"],
        ),
        (["-n", "a", "-sb", "-v=6", "status"], ["--namespace=a", "--server=b", "--v=6"], ["status"]),
        (["--insecure-skip-tls-verify", "status"], ["--insecure-skip-tls-verify=true"], ["status"]),
        (["--disable-compression=false", "x"], ["--disable-compression=false"], ["x"]),
        (["plan", "--", "--context", "a"], [], ["plan", "--", "--context", "a"]),
        (
            ["validate", "-R", "-f", "-", "--token-file", "t"],
            [],
            ["validate", "-R", "-f", "-", "--token-file", "t"],
        ),
    ],
)
def test_flags_of_kubectl_are_taken_off_as_kubectl_reads_them(
    arguments: list[str], flags: list[str], others: list[str]
) -> None:
    assert split(arguments) == (tuple(flags), others)


def test_a_flag_without_its_value_is_named() -> None:
    with pytest.raises(FlagError, match="--context needs a value"):
        split(["status", "--context"])
    for arguments in (["validate", "--server"], ["validate", "--server", "-f", "x"]):
        with pytest.raises(FlagError, match="--dry-run=server"):
            split(arguments)


def test_no_secret_is_in_a_command_that_is_shown() -> None:
    flags, _ = split(["--token", "t", "--password=p", "--context", "a", "-n", "b", "--as", "c"])
    assert shown(flags) == ("--context=a", "--as=c")


# Calls


def test_every_flag_is_in_every_call(stub: Callable[[str], Path]) -> None:
    folder = stub("echo '{}'")
    with Kubectl(("--context=a", "--as=b")) as kubectl:
        assert kubectl.get("/api/v1/nodes", labelSelector="a=b,c") == b"{}\n"
        kubectl.run("create", "token", "x")
    assert (folder / "calls").read_text().splitlines() == [
        "--context=a --as=b get --raw /api/v1/nodes?labelSelector=a%3Db%2Cc",
        "--context=a --as=b create token x",
    ]


@pytest.mark.slow
def test_the_first_call_runs_alone_and_then_at_most_four(stub: Callable[[str], Path]) -> None:
    folder = stub(
        "mkdir -p $FOLDER/running; touch $FOLDER/running/$$; ls $FOLDER/running | wc -l >> $FOLDER/counts\n"
        "sleep 0.3; rm $FOLDER/running/$$"
    )
    with Kubectl() as kubectl:
        calls = [kubectl.begin(lambda: kubectl.get("/version")) for _ in range(9)]
        for each in calls:
            each.result()
    first, *others = map(int, (folder / "counts").read_text().split())
    assert first == 1
    assert 1 < max(others) <= AT_ONCE


def test_the_first_call_has_the_input_of_the_terminal_and_no_other(
    stub: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub("readlink /proc/self/fd/0")
    ours, theirs = os.pipe()
    before = os.dup(0)
    os.dup2(ours, 0)
    try:
        with Kubectl() as kubectl:
            assert kubectl.get("/a").startswith(b"pipe:")
            assert kubectl.get("/b") == b"/dev/null\n"
    finally:
        os.dup2(before, 0)
        for each in (ours, theirs, before):
            os.close(each)


def test_a_prompt_of_the_first_call_is_shown_while_it_waits(
    stub: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = stub(
        "printf 'To sign in, type ABC: ' >&2\nuntil [ -e $FOLDER/typed ]; do sleep 0.05; done; echo ok"
    )
    with Kubectl() as kubectl:
        call = kubectl.begin(lambda: kubectl.get("/version"))
        told = ""

        def is_told() -> bool:
            nonlocal told
            told += capfd.readouterr().err
            return "To sign in, type ABC: " in told

        until(is_told)
        (folder / "typed").touch()
        assert call.result() == b"ok\n"


def test_a_later_call_shows_nothing_that_a_plugin_says(
    stub: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    stub("echo 'signing in' >&2")
    with Kubectl() as kubectl:
        kubectl.get("/a")
        kubectl.get("/b")
    assert capfd.readouterr().err == "signing in\n"


# Errors


@pytest.mark.parametrize(
    "said",
    [
        'error: context "x" does not exist',
        "Error from server (Forbidden): nodes is forbidden: no",
        "Unable to connect to the server: getting credentials: exec: executable gke failed with exit code 1",
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
    ],
)
def test_an_error_of_kubectl_is_told_once_and_the_words_of_a_plugin_before(
    stub: Callable[[str], Path], capfd: pytest.CaptureFixture[str], said: str
) -> None:
    stub(f"echo 'plugin: sorry' >&2; echo '{said}' >&2; exit 1")
    with Kubectl() as kubectl:
        with pytest.raises(KubectlError) as first:
            kubectl.get("/a")
        with pytest.raises(KubectlError) as second:
            kubectl.get("/a")
    assert first.value.said == second.value.said == said
    assert capfd.readouterr().err == "plugin: sorry\n"


def test_what_begins_like_an_error_is_shown_where_kubectl_succeeds(
    stub: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    stub("printf 'error: no cache\\nsigned in\\nE' >&2")
    with Kubectl() as kubectl:
        kubectl.get("/a")
    assert sorted(capfd.readouterr().err.split("\n")) == ["", "Eerror: no cache", "signed in"]


def test_an_error_without_words_has_the_exit_code(stub: Callable[[str], Path]) -> None:
    stub("exit 7")
    with Kubectl() as kubectl, pytest.raises(KubectlError, match="kubectl ended with exit code 7"):
        kubectl.get("/a")


def test_without_kubectl_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        Kubectl() as kubectl,
        pytest.raises(NotAskedError, match=r"cannot be started \(No such file"),
    ):
        kubectl.get("/a")


CRD = "kubectl apply -f install.yaml"
NO_RIGHT = (
    'Error from server (Forbidden): nodes is forbidden: User "jane" cannot list resource "nodes" in API '
    'group "" at the cluster scope'
)


@pytest.mark.parametrize(
    ("said", "reason", "advice"),
    [
        (
            "Error from server (NotFound): the server could not find the requested resource",
            "NotFound",
            "kubectl apply -f install.yaml",
        ),
        (
            'error: resource mapping not found: no matches for kind "WindowsNodePool"',
            "",
            "kubectl apply -f install.yaml",
        ),
        (NO_RIGHT, "Forbidden", '{apiGroups: [""], resources: ["nodes"], verbs: ["list"]} to a ClusterRole'),
        ("Error from server (InternalError): etcd is down", "InternalError", "etcd is down"),
        (
            "error: You must be logged in to the server (Unauthorized)",
            "",
            "kubectl get wnp works with the same flags",
        ),
    ],
)
def test_what_kubectl_says_is_followed_by_what_to_do(said: str, reason: str, advice: str) -> None:
    error = KubectlError(said)
    assert error.reason == reason
    assert str(error).startswith(said)
    assert advice in str(error)


NOT_FOUND = (
    "echo 'Error from server (NotFound): the server could not find the requested resource' >&2; exit 1"
)


@pytest.mark.parametrize(
    ("of_version", "said"),
    [
        ("""echo '{"gitVersion": "v1.34.0"}'""", "this cluster has no WindowsNodePool"),
        ("echo 'Error from server (Forbidden): no' >&2; exit 1", "this cluster has no WindowsNodePool"),
        (NOT_FOUND, "not from a Kubernetes API server"),
        ("echo '<html>'", "not from a Kubernetes API server"),
    ],
)
def test_a_crd_is_missing_only_where_an_api_server_answers(
    stub: Callable[[str], Path], of_version: str, said: str
) -> None:
    """What listens at localhost:8080, which kubectl asks without a kubeconfig, may be any HTTP server."""
    stub(f'case "$*" in *version*) {of_version};; *) {NOT_FOUND};; esac')
    with Kubectl() as kubectl, pytest.raises(NotAskedError, match=said):
        kubectl.get("/apis/winpool.dev/v1alpha1/windowsnodepools")


def test_a_pool_that_is_called_as_its_resource_is_a_slash_that_is_missing() -> None:
    named = NoSuchPoolError("win-2022", "wnp")
    assert "list the pools with kubectl get wnp" in named.lines[0]
    assert "as wnp/NAME, or alone" in named.lines[1]


# Lists


class _Page(msgspec.Struct):
    names: list[str]
    continue_token: str = ""


class Listing(Kubectl):
    """Gives these answers to lists, one after the other."""

    def __init__(self, *answers: object) -> None:
        super().__init__()
        self.answers = [*answers]
        self.asked: list[dict[str, str]] = []

    def get(self, path: str, **query: str) -> bytes:
        assert path == "/x"
        self.asked.append(query)
        answer = self.answers.pop(0)
        if isinstance(answer, KubectlError):
            raise answer
        return msgspec.json.encode(answer)

    def names(self) -> list[str]:
        decode = msgspec.json.Decoder(_Page).decode
        return complete(lambda: [name for page in self.pages("/x", decode) for name in page.names])


EXPIRED = KubectlError("Error from server (Expired): The provided continue parameter is too old")


def test_a_list_is_all_of_its_pages() -> None:
    kubectl = Listing(
        {"names": ["a"], "continue_token": "t"}, {"names": [], "continue_token": "u"}, {"names": ["b"]}
    )
    assert kubectl.names() == ["a", "b"]
    assert [each.get("continue") for each in kubectl.asked] == [None, "t", "u"]
    assert {each["limit"] for each in kubectl.asked} == {str(module.PAGE_LIMIT)}


def test_a_list_that_expires_begins_again_a_few_times() -> None:
    first = {"names": ["a"], "continue_token": "t"}
    assert Listing(first, EXPIRED, {"names": ["b"]}).names() == ["b"]
    with pytest.raises(KubectlError, match="too old"):
        Listing(*[EXPIRED] * module.LIST_ATTEMPTS).names()
    other = KubectlError("Error from server (Forbidden): no")
    kubectl = Listing(other, {"names": []})
    with pytest.raises(KubectlError, match="no"):
        kubectl.names()


def test_what_is_no_list_is_told() -> None:
    with pytest.raises(NotAskedError, match="not from a Kubernetes API server"):
        decoded(msgspec.json.Decoder(_Page).decode, b"<html>")


# What runs for long


def test_a_watch_gives_lines_as_they_come_and_ends_with_the_plugin(stub: Callable[[str], Path]) -> None:
    folder = stub("echo one; echo two; exec sleep 600")
    with Kubectl() as kubectl:
        lines = kubectl.watch("/x", resourceVersion="7")
        assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
        assert lives(folder)
    until(lambda: not lives(folder))
    assert "watch=1" in (folder / "calls").read_text()


def test_a_watch_that_fails_says_why(stub: Callable[[str], Path]) -> None:
    stub("echo one; echo 'error: unexpected EOF' >&2; exit 1")
    with Kubectl() as kubectl, pytest.raises(KubectlError, match="unexpected EOF"):
        list(kubectl.watch("/x"))


def test_a_call_ends_with_the_plugin(stub: Callable[[str], Path]) -> None:
    folder = stub("exec sleep 600")
    with Kubectl() as kubectl:
        call = kubectl.begin(lambda: kubectl.get("/x"))
        until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    with pytest.raises(KubectlError):
        call.result(GUARD_SECONDS)
    assert not lives(folder)


def test_a_call_that_starts_while_the_plugin_ends_ends_too(stub: Callable[[str], Path]) -> None:
    stub("exec sleep 600")
    with Kubectl() as kubectl:
        pass
    with pytest.raises(KubectlError):
        kubectl.get("/x")


def test_a_port_is_forwarded_as_long_as_it_is_needed(stub: Callable[[str], Path]) -> None:
    folder = stub(f"{LISTENS}; exec sleep 600")
    with Kubectl(("--context=c",)) as kubectl:
        with kubectl.forwarded("winpool-1", namespace="winpool-system", port="metrics") as port:
            assert port == 4711
            assert lives(folder)
        assert not lives(folder)
    assert (folder / "calls").read_text().strip() == (
        "--context=c port-forward --namespace winpool-system --address 127.0.0.1 pod/winpool-1 :metrics"
    )


def test_one_path_is_proxied_to_a_socket_of_this_user_as_long_as_it_is_needed(
    stub: Callable[[str], Path],
) -> None:
    folder = stub("echo Starting to serve on x; exec sleep 600")
    with Kubectl(("--context=c",)) as kubectl:
        with kubectl.proxied("/api/v1/nodes/w.1/proxy/stats/summary") as address:
            place = Path(address).parent
            assert place.stat().st_mode & 0o777 == 0o700
            assert lives(folder)
        assert not lives(folder)
    assert not place.exists()
    assert (folder / "calls").read_text().strip() == (
        f"--context=c proxy --unix-socket={address} --accept-paths=^/api/v1/nodes/w\\.1/proxy/stats/summary$ "
        "--reject-methods=^([^G]|G[^E]|GE[^T]|GET.)"
    )


def test_a_kubectl_that_does_not_want_to_end_is_killed(
    stub: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_SECONDS", 0.1)
    folder = stub(f"trap '' TERM\n{LISTENS}\nwhile :; do read -r line < /dev/zero; done")
    with Kubectl() as kubectl, kubectl.forwarded("a", namespace="b", port="c"):
        pass
    assert not lives(folder)


def test_a_kubectl_that_writes_without_end_does_not_have_to_wait(stub: Callable[[str], Path]) -> None:
    """Pipes are small, and kubectl says a word for each connection."""
    talks = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"
    folder = stub(f"{LISTENS}; {talks}; touch $FOLDER/done; exec sleep 600")
    with Kubectl() as kubectl, kubectl.forwarded("a", namespace="b", port="c"):
        until((folder / "done").exists)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo 'error: pods \"a\" not found' >&2; exit 1", 'error: pods "a" not found'),
        ("printf 'one\\ntwo' >&2; exit 1", "one two"),
        ("exit 1", "exit code 1"),
        ("echo Forwarding from nowhere; exit 0", "exit code 1"),
        ("head -c 200000 /dev/zero; exit 1", "exit code 1"),
    ],
)
def test_a_kubectl_that_does_not_listen_is_quoted(stub: Callable[[str], Path], lines: str, said: str) -> None:
    stub(lines)
    with (
        Kubectl() as kubectl,
        pytest.raises(KubectlError, match=said),
        kubectl.forwarded("a", namespace="b", port="c"),
    ):
        pass


def test_calls_of_other_threads_go_on_while_one_waits(stub: Callable[[str], Path]) -> None:
    stub("echo ok")
    found: list[bytes] = []
    with Kubectl() as kubectl:
        threads = [threading.Thread(target=lambda: found.append(kubectl.get("/x"))) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(GUARD_SECONDS)
    assert found == [b"ok\n"] * 3
