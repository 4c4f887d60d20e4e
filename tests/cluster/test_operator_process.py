"""The operator as a process: how it starts, what it serves and logs, and how it ends."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from harness.operator import Operator
from harness.serving import serving
from harness.waiting import eventually, holds
from harness.world import World

if TYPE_CHECKING:
    from testbed.cluster import Testbed

SPEC: dict[str, Any] = {"labels": {"example.com/team": "payments"}}
JWT = re.compile(r"eyJ[\w-]+\.eyJ")


def test_it_serves_health_readiness_and_metrics_of_its_pools(world: World) -> None:
    names = world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    assert world.operator.get("/healthz")[0] == 200
    assert world.operator.get("/readyz")[0] == 200
    assert world.operator.get("/")[0] == 404
    eventually(
        lambda: world.operator.metric("winpool_nodes", pool=pool, state="UpToDate") == 3,
        what="winpool_nodes of the pool",
    )
    code, text = world.operator.get("/metrics")
    assert code == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [name for name in families if not name.startswith(("winpool_", "process_", "python_"))] == []
    assert [name for name, family in families.items() if not family.documentation] == []
    assert [name for name in names if name in text] == [], (
        "series per node: their number must not grow with nodes"
    )

    world.delete(pool)
    eventually(
        lambda: pool not in world.operator.get("/metrics")[1], what="the series of a deleted pool gone"
    )


def test_health_has_a_port_of_its_own_where_asked_for(world: World) -> None:
    operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "health.log",
        environment={"WINPOOL_HEALTH_PORT": "0"},
        from_nothing=True,
    )
    try:
        operator.start(wait=False)
        eventually(lambda: operator.get("/metrics")[0] == 200, what="metrics are served")
        found = re.search(r"health on port (\d+)", operator.log_text())
        assert found, operator.log_text()
        health = int(found[1])
        assert operator.get("/healthz")[0] == 404, "it is on the other port only"
        eventually(lambda: answer(health, "/readyz") == 200, what="ready")
        assert answer(health, "/healthz") == 200
        assert answer(health, "/metrics") == 404
        assert operator.stop(seconds=2) == 0
    finally:
        operator.close()


def answer(port: int, path: str) -> int:
    """Return the status of a GET."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.nightly
def test_a_reason_in_a_spec_writes_no_line_of_its_own_into_log_status_or_events(world: World) -> None:
    """A reason with a newline, an escape sequence and a change of direction is written out everywhere."""
    world.fleet(windows=1)
    reason = "said so\n12:00:00 ERROR forged\x1b[2J\u202e"
    row = {"osVersion": "2022", "verdict": "Warn", "reason": reason}
    pool = world.pool(**SPEC)
    pool["spec"]["supportMatrix"] = [row]
    operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "text.log",
        environment={"WINPOOL_LOG_FORMAT": "text"},
        from_nothing=True,
    )
    try:
        name = world.apply(pool)
        operator.start()
        world.wait_up_to_date(name, nodes=1)

        def told() -> dict[str, Any] | None:
            status = world.status(name)
            return status if "said so" in json.dumps(status) else None

        status = eventually(told, what="the reason in the status")
        assert status is not None
        messages = [each["message"] for each in (*status["conditions"], *status["issues"])]
        assert [text for text in messages if "said so" in text]
        assert [text for text in messages if not text.isprintable()] == []
        eventually(lambda: "said so" in operator.log_text(), what="the reason in the log")
        lines = operator.log_text().removesuffix("\n").split("\n")
        assert [line for line in lines if not line.isprintable()] == []
        assert [line for line in lines if line.startswith("12:00:00 ERROR")] == []
    finally:
        operator.close()
    notes = [each["message"] for each in world.events(kind="WindowsNodePool", name=name)]
    assert [text for text in notes if not text.isprintable()] == []


@pytest.mark.nightly
def test_its_json_log_parses_and_holds_no_token_even_at_debug(world: World) -> None:
    world.fleet(windows=2)
    operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "debug.log",
        environment={"WINPOOL_LOG_LEVEL": "debug"},
        from_nothing=True,
    )
    token = world.testbed.layout.token.read_text().strip()
    try:
        pool = world.apply(world.pool(**SPEC))
        operator.start()
        world.wait_up_to_date(pool, nodes=2)
        world.delete(pool)
        assert operator.stop() == 0
    finally:
        operator.close()
    text = operator.log_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) > 3
    assert [line for line in lines if not {"time", "level", "logger", "message"} <= line.keys()] == []
    assert "DEBUG" in {line["level"] for line in lines}
    assert JWT.match(token)
    assert token not in text
    assert not JWT.search(text)
    assert [line for line in lines if line["level"] in ("WARNING", "ERROR", "CRITICAL")] == []


PASSWORD = "wordThatNoOneMaySee"
AS_BASIC = base64.b64encode(f"jane:{PASSWORD}".encode()).decode()
"""How the proxy is sent it."""


class RefusingProxy(BaseHTTPRequestHandler):
    """Answers whatever it is asked for with 407, and keeps what it was sent as password."""

    given: ClassVar[list[str]] = []

    def do_CONNECT(self) -> None:
        self.given.append(self.headers.get("Proxy-Authorization", ""))
        self.send_error(407)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def refusing_proxy() -> Iterator[str]:
    """Run one on loopback and yield its address."""
    RefusingProxy.given.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), RefusingProxy)
    with serving(server):
        yield f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("source", ["proxy-url", "HTTPS_PROXY"])
def test_a_password_of_a_proxy_is_neither_in_the_log_nor_in_readyz(tmp_path: Path, source: str) -> None:
    with refusing_proxy() as proxy:
        url = f"http://jane:{PASSWORD}@{proxy}"
        cluster = {"server": "https://kubernetes.invalid"}
        environment = {"WINPOOL_LOG_LEVEL": "debug"}
        (cluster if source == "proxy-url" else environment)[source] = url
        operator = Operator(
            kubeconfig=a_kubeconfig(tmp_path / "my-kubeconfig", cluster=cluster),
            log_file=tmp_path / "debug.log",
            environment=environment,
            from_nothing=True,
        )
        try:
            operator.start(wait=False)

            def unready() -> str | None:
                code, said = operator.get("/readyz")
                return said if code == 503 and said.count("the proxy answers 407") == 2 else None

            said = eventually(unready, what="not ready, since the proxy refuses to list pools and nodes")
            assert operator.stop() == 0
        finally:
            operator.close()
    assert f"Basic {AS_BASIC}" in RefusingProxy.given, "the operator has sent it"
    for text in (str(said), operator.log_text()):
        assert "the proxy answers 407" in text
        assert PASSWORD not in text
        assert AS_BASIC not in text


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_password_in_the_url_of_the_api_server_is_refused_and_not_shown(
    tmp_path: Path, log_format: str
) -> None:
    server = f"https://jane:{PASSWORD}@127.0.0.1:1"
    done = run(
        "run",
        kubeconfig=a_kubeconfig(tmp_path / "my-kubeconfig", cluster={"server": server}),
        log_format=log_format,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "https://127.0.0.1:1 names a user" in said
    assert PASSWORD not in said


def test_sigterm_ends_it_within_2_seconds_with_exit_code_0(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    assert world.operator.stop(seconds=2) == 0
    assert [line for line in world.operator.log_lines() if "SIGTERM" in str(line["message"])][1:] == []
    assert "SIGTERM" in str(world.operator.log_lines()[-1]["message"]), "its last line says why it ended"
    world.operator.start(wait=False)
    eventually(lambda: world.operator.get("/healthz")[0], what="it answers")
    assert world.operator.stop(seconds=2) == 0
    assert "Traceback" not in world.operator.log_text()


@pytest.mark.nightly
def test_sigterm_in_the_middle_of_a_write_ends_it_within_2_seconds_too(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    with world.write_gate(passes=1) as gate:
        world.operator.start(wait=False)
        eventually(lambda: gate.held, what="a write to a node is held")
        assert world.operator.stop(seconds=2) == 0
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)


@pytest.mark.nightly
def test_without_api_server_or_token_it_stays_alive_unready_and_clear_and_still_ends_at_once(
    testbed: Testbed, tmp_path: Path
) -> None:
    token_file = tmp_path / "no-such-token"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
        kubeconfigs = {
            nobody: copy_kubeconfig(testbed, tmp_path / "nobody-listens", server=f"https://{nobody}"),
            str(token_file): copy_kubeconfig(testbed, tmp_path / "no-token", token_file=token_file),
        }
        operators = {
            fault: Operator(
                kubeconfig=kubeconfig, log_file=tmp_path / f"{kubeconfig.name}.log", from_nothing=True
            )
            for fault, kubeconfig in kubeconfigs.items()
        }
        try:
            for operator in operators.values():
                operator.start(wait=False)
            eventually(
                lambda: {each.get("/healthz")[0] for each in operators.values()} == {200},
                what="/healthz says 200",
            )
            # Longer than it takes the framework below to give up for good, which is after 8 s.
            holds(lambda: all(each.running for each in operators.values()), seconds=12)
            for fault, operator in operators.items():
                assert operator.get("/healthz")[0] == 200
                assert operator.get("/readyz")[0] == 503
                warnings = [
                    line for line in operator.log_lines() if line.get("level") in ("WARNING", "ERROR")
                ]
                assert [line for line in warnings if fault in str(line["message"])] != []
                assert operator.stop(seconds=2) == 0
        finally:
            for operator in operators.values():
                operator.close()
    for operator in operators.values():
        assert "Traceback" not in operator.log_text()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="no such file"),
        pytest.param("{ not yaml: [\n", id="not YAML"),
        pytest.param("apiVersion: v1\nkind: Config\n", id="no cluster"),
    ],
)
def test_a_wrong_kubeconfig_is_one_clear_sentence_and_exit_code_1(
    tmp_path: Path, content: str | None, log_format: str
) -> None:
    kubeconfig = tmp_path / "my-kubeconfig"
    if content is not None:
        kubeconfig.write_text(content)
    done = run("run", kubeconfig=kubeconfig, log_format=log_format)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = (done.stdout + done.stderr).strip().splitlines()
    assert len(lines) == 1, lines
    assert "Traceback" not in lines[0]
    assert str(kubeconfig) in lines[0]


def test_a_wrong_setting_is_named_and_not_run_with(tmp_path: Path) -> None:
    done = run("run", kubeconfig=tmp_path / "any", log_format="xml")
    said = done.stdout + done.stderr
    assert done.returncode not in (0, -9)
    assert "Traceback" not in said
    assert "log" in said.lower()
    assert "format" in said.lower()
    assert "json" in said, "what is allowed is not said"


def test_a_port_that_is_taken_is_one_clear_sentence_and_exit_code_1(testbed: Testbed) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("run", f"--port={port}", kubeconfig=testbed.kubeconfig("winpool"), log_format="text")
    assert done.returncode == 1
    [line] = (done.stdout + done.stderr).strip().splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "--port" in line, "what to do is not said"


def run(*arguments: str, kubeconfig: Path, log_format: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "winpool", *arguments],
        env={
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "WINPOOL_KUBECONFIG": str(kubeconfig),
            "WINPOOL_HOST": "127.0.0.1",
            "WINPOOL_PORT": "0",
            "WINPOOL_LOG_FORMAT": log_format,
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def copy_kubeconfig(
    testbed: Testbed, path: Path, *, server: str | None = None, token_file: Path | None = None
) -> Path:
    """Copy the operator's kubeconfig with another server or another token file."""
    config = yaml.safe_load(testbed.kubeconfig("winpool").read_text())
    if server:
        config["clusters"][0]["cluster"]["server"] = server
    if token_file:
        config["users"][0]["user"]["tokenFile"] = str(token_file)
    path.write_text(yaml.safe_dump(config))
    return path


def a_kubeconfig(path: Path, *, cluster: dict[str, str]) -> Path:
    """Write a kubeconfig with this entry of a cluster, and a token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "mine",
        "clusters": [{"name": "mine", "cluster": cluster}],
        "users": [{"name": "mine", "user": {"token": "no-token-of-any-cluster"}}],
        "contexts": [{"name": "mine", "context": {"cluster": "mine", "user": "mine"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path
