"""Settings by flag and by environment, and the command line around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_settings import CliApp

import winpool
from harness.every import every
from winpool.__main__ import Winpool, main
from winpool.api.crd import render
from winpool.kube.watch import RELIST_SECONDS
from winpool.settings import Settings


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WINPOOL_{name.upper()}", raising=False)


def by_flags(*flags: str) -> Settings:
    """Return the settings of ``winpool run`` with these flags."""
    parsed = CliApp.run(Winpool, cli_args=["run", *flags])
    assert isinstance(parsed.run, Settings)
    return parsed.run


OTHER_THAN_DEFAULT: dict[str, tuple[str, Any]] = {
    "kubeconfig": ("/etc/winpool/kubeconfig", Path("/etc/winpool/kubeconfig")),
    "context": ("staging", "staging"),
    "host": ("127.0.0.9", "127.0.0.9"),
    "port": ("0", 0),
    "health_port": ("8081", 8081),
    "metrics_auth": ("token", "token"),
    "tls_cert_file": ("/etc/winpool/tls.crt", Path("/etc/winpool/tls.crt")),
    "tls_key_file": ("/etc/winpool/tls.key", Path("/etc/winpool/tls.key")),
    "events_per_second": ("3", 3),
    "pool_relist_seconds": ("7", 7),
    "node_relist_seconds": ("9", 9),
    "pod_pass_seconds": ("13", 13),
    "orphan_grace_seconds": ("11", 11),
    "leader_elect": ("true", True),
    "support_matrix_file": ("/etc/winpool/matrix.yaml", Path("/etc/winpool/matrix.yaml")),
    "kubelet_ca_file": ("/etc/winpool/kubelets.crt", Path("/etc/winpool/kubelets.crt")),
    "kubelet_insecure_tls": ("true", True),
    "kubelet_address_ranges": ("127.0.0.0/8, fe80::/10", "127.0.0.0/8, fe80::/10"),
    "memory_poll_seconds": ("30", 30),
    "memory_hot_poll_seconds": ("5", 5),
    "protected_namespaces": ("vault, payments", "vault, payments"),
    "allow_force": ("true", True),
    "unaudited_namespaces": ("legacy", "legacy"),
    "data_sources_file": ("/etc/winpool/sources.yaml", Path("/etc/winpool/sources.yaml")),
    "max_nodes_in_work": ("4", 4),
    "node_name": ("lin-1", "lin-1"),
    "log_format": ("json", "json"),
    "log_level": ("debug", "debug"),
}


PAIR = ("tls_cert_file", "tls_key_file")


def others_of(name: str) -> dict[str, str]:
    """Return the settings, with a value, that one cannot be without."""
    return {each: OTHER_THAN_DEFAULT[each][0] for each in PAIR if name in PAIR and each != name}


def test_every_setting_has_a_default_and_a_description() -> None:
    Settings()
    assert all(field.description for field in Settings.model_fields.values())


def test_by_default_there_are_five_events_a_second_at_most() -> None:
    assert Settings().events_per_second == 5


def test_by_default_regular_lists_are_as_far_apart_as_silence_asks() -> None:
    """P2: one list of pools per 5 minutes, one of nodes, of pods and of the guard per 10 minutes."""
    settings = Settings()
    assert settings.pool_relist_seconds >= 5 * 60
    assert settings.node_relist_seconds >= 10 * 60
    assert settings.pod_pass_seconds >= 10 * 60
    assert RELIST_SECONDS >= 10 * 60


def test_the_table_here_has_every_setting() -> None:
    assert OTHER_THAN_DEFAULT.keys() == Settings.model_fields.keys()


@pytest.mark.parametrize(("name", "text", "value"), [(n, *pair) for n, pair in OTHER_THAN_DEFAULT.items()])
def test_a_setting_can_be_given_by_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
) -> None:
    assert getattr(Settings(), name) != value
    for variable, given in {**others_of(name), name: text}.items():
        monkeypatch.setenv(f"WINPOOL_{variable.upper()}", given)
    assert getattr(Settings(), name) == value
    assert getattr(by_flags(), name) == value


@every(("name", "text", "value"), [(n, *pair) for n, pair in OTHER_THAN_DEFAULT.items()])
def test_a_setting_can_be_given_by_flag(name: str, text: str, value: object) -> None:
    flag = f"--{name.replace('_', '-')}"
    others = [f"--{other.replace('_', '-')}={given}" for other, given in others_of(name).items()]
    if isinstance(value, bool):  # argparse gives such a flag no value
        assert getattr(by_flags(*others, flag), name) is True
        assert getattr(by_flags(*others, flag.replace("--", "--no-")), name) is False
        return
    assert getattr(by_flags(*others, flag, text), name) == value
    assert getattr(by_flags(f"{flag}={text}", *others), name) == value


def test_the_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINPOOL_LOG_FORMAT", "json")
    monkeypatch.setenv("WINPOOL_PORT", "1234")
    settings = by_flags("--log-format", "text")
    assert (settings.log_format, settings.port) == ("text", 1234)


def test_an_unknown_variable_is_no_concern_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes sets WINPOOL_PORT_443_TCP and the like for a Service called winpool."""
    monkeypatch.setenv("WINPOOL_PORT_443_TCP", "tcp://10.0.0.1:443")
    monkeypatch.setenv("WINPOOL_SERVICE_HOST", "10.0.0.1")
    Settings()


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Settings(), "host", "127.0.0.1")  # noqa: B010 - as an assignment it would not pass the types


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (
            "--tls-cert-file=/a.crt",
            "--tls-key-file (or WINPOOL_TLS_KEY_FILE) is not set: it is required with --tls-cert-file: "
            "set both, or neither",
        ),
        (
            "--tls-key-file=/a.key",
            "--tls-key-file (or WINPOOL_TLS_KEY_FILE) is '/a.key': it requires --tls-cert-file: set both, or "
            "neither",
        ),
    ],
)
def test_a_certificate_without_a_key_or_a_key_without_a_certificate_is_refused(
    capsys: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    assert outcome("run", flag) == 2
    assert capsys.readouterr().err == f"winpool: {said}\n"


def test_a_ca_of_kubelets_that_would_verify_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("run", "--kubelet-insecure-tls", "--kubelet-ca-file=/a.crt") == 2
    said = "it excludes --kubelet-ca-file: set one of the two"
    assert capsys.readouterr().err == (
        f"winpool: --kubelet-insecure-tls (or WINPOOL_KUBELET_INSECURE_TLS) is True: {said}\n"
    )
    assert by_flags("--no-kubelet-insecure-tls", "--kubelet-ca-file=/a.crt").kubelet_ca_file == Path("/a.crt")


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ("127.0.0.0/8,home", "'home' is not a range of addresses; write it like 127.0.0.0/8"),
        ("127.0.0.1/8", "'127.0.0.1/8' is not a range of addresses; write it like 127.0.0.0/8"),
        ("10.0.0.0/8", "10.0.0.0/8 has addresses that are neither loopback nor link-local"),
        ("0.0.0.0/0", "0.0.0.0/0 has addresses that are neither loopback nor link-local"),
    ],
)
def test_ranges_that_cannot_be_used_end_the_command_and_say_why(
    capsys: pytest.CaptureFixture[str], ranges: str, said: str
) -> None:
    assert outcome("run", f"--kubelet-address-ranges={ranges}") == 2
    assert f"--kubelet-address-ranges (or WINPOOL_KUBELET_ADDRESS_RANGES) is {ranges!r}: {said}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("names", ["vault,Payments", "vault,*", "kube-*", "vault;payments", "a" * 64])
@pytest.mark.parametrize("setting", ["protected", "unaudited"])
def test_namespaces_that_are_none_end_the_command_since_they_would_have_no_effect(
    capsys: pytest.CaptureFixture[str], setting: str, names: str
) -> None:
    assert outcome("run", f"--{setting}-namespaces={names}") == 2
    told = capsys.readouterr().err
    assert f"--{setting}-namespaces (or WINPOOL_{setting.upper()}_NAMESPACES) is {names!r}: " in told
    assert "is not the name of a namespace; write names like vault,payments" in told


BAD = {
    "metrics_auth": ["basic", ""],
    "port": ["-1", "65536", "http"],
    "health_port": ["-1", "65536", "http"],
    "events_per_second": ["0", "-1", "101", "1.5"],
    "log_format": ["xml"],
    "log_level": ["loud"],
    "pool_relist_seconds": ["0", "-1", "1.5", "86400"],
    "node_relist_seconds": ["0", "86400"],
    "pod_pass_seconds": ["0", "86401"],
    "orphan_grace_seconds": ["0", "86400"],
}
BAD_VALUES = [(name, value) for name, values in BAD.items() for value in values]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_flag_that_cannot_be_used_ends_the_command_and_says_which(
    capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    flag = f"--{name.replace('_', '-')}"
    assert outcome("run", f"{flag}={value}") == 2
    told = capsys.readouterr()
    assert flag in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_variable_that_cannot_be_used_ends_the_command_and_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(f"WINPOOL_{name.upper()}", value)
    assert outcome("run") == 2
    told = capsys.readouterr()
    assert f"WINPOOL_{name.upper()}" in told.err
    assert "Traceback" not in told.err


def outcome(*arguments: str) -> int:
    """Return the exit code of the command, however it ends."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert winpool.__version__ in capsys.readouterr().out


def test_crd_prints_the_definition_as_it_stands_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd"]) == 0
    assert capsys.readouterr().out == render()


def test_no_command_at_all_is_refused_and_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome() == 2
    told = capsys.readouterr()
    assert all(word in told.err for word in ("run", "crd", "version"))
    assert told.out == ""


@pytest.mark.parametrize("arguments", [["fly"], ["run", "--fly"], ["version", "--fly"]])
def test_an_unknown_command_or_flag_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(*arguments) == 2
    assert "fly" in capsys.readouterr().err


def test_help_lists_the_commands_and_their_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("--help") == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("run", "crd", "version"))
    assert outcome("run", "--help") == 0
    told = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')}" in told for name in Settings.model_fields)


def test_help_says_what_each_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("--help") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for command in ("run", "crd", "version"):
        assert [words for words in lines if words[:1] == [command] and len(words) > 1], command


def test_help_names_no_default_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no value the description says what that means."""
    assert outcome("run", "--help") == 0
    told = capsys.readouterr().out
    assert "null" not in told
    assert "(default: 8080)" in told
