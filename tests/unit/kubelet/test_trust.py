"""CA files that change, break and come back."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from harness.clock import Seconds
from harness.listener import an_authority
from winpool.kubelet.connection import Trust, TrustError, insecure_context


def subjects(context: ssl.SSLContext) -> list[str]:
    found: Any = context.get_ca_certs()
    return [dict(part[0] for part in each["subject"])["commonName"] for each in found]


def test_only_the_given_ca_is_trusted_and_a_new_one_after_ten_seconds(tmp_path: Path, clock: Seconds) -> None:
    ca = tmp_path / "trusted.crt"
    ca.write_bytes(an_authority(tmp_path, "old").paths.certificate.read_bytes())
    trust = Trust(ca, monotonic=clock)
    first = trust.context()
    assert subjects(first) == ["old"]
    ca.write_bytes(an_authority(tmp_path, "new").paths.certificate.read_bytes())
    clock.now += 9.9
    assert trust.context() is first
    clock.now += 0.1
    assert subjects(trust.context()) == ["new"]


def test_a_file_that_has_not_changed_makes_no_new_context(tmp_path: Path, clock: Seconds) -> None:
    trust = Trust(an_authority(tmp_path, "ca").paths.certificate, monotonic=clock)
    first = trust.context()
    clock.now += 100
    assert trust.context() is first
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname


def test_a_file_that_breaks_changes_nothing_is_logged_once_and_is_replaced_by_the_next(
    tmp_path: Path, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    ca = tmp_path / "trusted.crt"
    good = an_authority(tmp_path, "old").paths.certificate.read_bytes()
    ca.write_bytes(good)
    trust = Trust(ca, monotonic=clock)
    first = trust.context()
    for content in (b"", b"hello", b"\xff", None):
        if content is None:
            ca.unlink()
        else:
            ca.write_bytes(content)
        clock.now += 10
        assert trust.context() is first
    [record] = [each for each in caplog.records if each.name.startswith("winpool.")]
    assert "winpool continues with the file as read before" in record.getMessage()
    ca.write_bytes(an_authority(tmp_path, "new").paths.certificate.read_bytes())
    clock.now += 10
    assert subjects(trust.context()) == ["new"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), (b"", "is empty"), (b"hello", "PEM format"), (b"\xff\xfe", "cannot be read")],
)
def test_a_file_that_cannot_be_used_at_the_start_is_an_error_that_names_it(
    tmp_path: Path, clock: Seconds, content: bytes | None, said: str
) -> None:
    ca = tmp_path / "trusted.crt"
    if content is not None:
        ca.write_bytes(content)
    with pytest.raises(TrustError, match=said) as raised:
        Trust(ca, monotonic=clock)
    assert str(ca) in str(raised.value)


def test_without_a_file_the_cas_of_the_system_are_trusted(clock: Seconds) -> None:
    context = Trust(None, monotonic=clock).context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_insecure_verifies_nothing() -> None:
    context = insecure_context()
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname
