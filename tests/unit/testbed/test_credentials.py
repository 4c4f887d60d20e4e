"""Certificates, kubeconfigs and tokens, without anybody who checks them for us."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from testbed import kubeconfig, tokens
from testbed.paths import Layout
from testbed.pki import Authority, Pair, Pki

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
SERVER = "https://127.0.0.1:20002"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    Pki(made.pki).create(now=NOW)
    return made


def certificate(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.read_bytes())


def test_the_serving_certificate_verifies_for_loopback(layout: Layout) -> None:
    pki = Pki(layout.pki)
    verifier = (
        PolicyBuilder()
        .store(Store([certificate(pki.ca)]))
        .time(NOW)
        .build_server_verifier(x509.DNSName("localhost"))
    )
    chain = verifier.verify(certificate(pki.serving), [])
    assert len(chain) == 2
    names = certificate(pki.serving).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "127.0.0.1" in {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert "kubernetes.default" in names.get_values_for_type(x509.DNSName)


def test_the_front_proxy_is_signed_by_an_authority_of_its_own(layout: Layout) -> None:
    pki = Pki(layout.pki)
    client = certificate(pki.front_proxy_client)
    client.verify_directly_issued_by(certificate(pki.front_proxy_ca))
    with pytest.raises(ValueError, match="does not match"):
        client.verify_directly_issued_by(certificate(pki.ca))


def test_a_client_certificate_carries_user_and_groups(layout: Layout) -> None:
    authority = Authority.load(Pki(layout.pki).ca)
    pair = authority.issue_client(
        Pki(layout.pki).pair("x"), common_name="alice", organizations=("dev", "ops"), now=NOW
    )
    subject = certificate(pair).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["dev", "ops"]
    usage = certificate(pair).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_certificates_are_valid_before_now_and_long_after(layout: Layout) -> None:
    made = certificate(Pki(layout.pki).serving)
    assert made.not_valid_before_utc <= NOW - timedelta(minutes=1)
    assert made.not_valid_after_utc >= NOW + timedelta(days=300)


def test_keys_are_for_their_owner_only(layout: Layout) -> None:
    kubeconfig.write_all(layout, server=SERVER)
    secret = [*layout.pki.glob("*.key"), *layout.kubeconfigs.iterdir()]
    assert len(secret) >= 10
    assert {path.stat().st_mode & 0o077 for path in secret} == {0}
    assert layout.pki.stat().st_mode & 0o077 == 0


def test_there_is_a_kubeconfig_for_every_role(layout: Layout) -> None:
    kubeconfig.write_all(layout, server=SERVER)
    roles = {path.stem for path in layout.kubeconfigs.glob("*.kubeconfig")}
    assert roles == {"admin", "kcm", "scheduler", "supervisor", "winpool"}
    for role in roles:
        document = yaml.safe_load(layout.kubeconfig(role).read_text())
        (cluster,) = document["clusters"]
        (user,) = document["users"]
        (context,) = document["contexts"]
        assert cluster["cluster"] == {
            "server": SERVER,
            "certificate-authority": str(Pki(layout.pki).ca.certificate),
        }
        assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
        assert document["current-context"] == context["name"]


def test_the_operators_kubeconfig_names_a_token_file_and_no_certificate(layout: Layout) -> None:
    kubeconfig.write_all(layout, server=SERVER)
    (user,) = yaml.safe_load(layout.kubeconfig("winpool").read_text())["users"]
    assert user["user"] == {"tokenFile": str(layout.token)}


def test_a_user_is_signed_by_the_clusters_authority(layout: Layout) -> None:
    layout.kubeconfigs.mkdir()
    path = kubeconfig.write_user(layout, server=SERVER, role="user-1", user="alice", groups=("dev",))
    (user,) = yaml.safe_load(path.read_text())["users"]
    pair = Pair(Path(user["user"]["client-certificate"]), Path(user["user"]["client-key"]))
    certificate(pair).verify_directly_issued_by(certificate(Pki(layout.pki).ca))
    assert certificate(pair).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "alice"


def mint(layout: Layout, *, lifetime_seconds: float) -> str:
    key = Pki(layout.pki).service_account_key
    return tokens.mint(key_file=key, uid="u-1", now=NOW, lifetime_seconds=lifetime_seconds)


def claims(layout: Layout, token: str) -> dict[str, object]:
    public = Pki(layout.pki).service_account_public_key.read_text()
    decoded: dict[str, object] = jwt.decode(
        token,
        public,
        algorithms=["ES256"],
        audience=tokens.ISSUER,
        issuer=tokens.ISSUER,
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    return decoded


def test_a_token_has_the_claims_of_a_bound_one(layout: Layout) -> None:
    found = claims(layout, mint(layout, lifetime_seconds=600))
    assert found["sub"] == "system:serviceaccount:winpool-system:winpool"
    assert found["kubernetes.io"] == {
        "namespace": "winpool-system",
        "serviceaccount": {"name": "winpool", "uid": "u-1"},
    }
    issued = int(NOW.timestamp())
    assert (found["iat"], found["nbf"], found["exp"]) == (issued, issued, issued + 600)


def test_a_token_may_have_expired_already_and_is_still_well_formed(layout: Layout) -> None:
    found = claims(layout, mint(layout, lifetime_seconds=-120))
    assert found["exp"] == found["nbf"] == found["iat"] == int(NOW.timestamp()) - 120


def test_every_token_is_another(layout: Layout) -> None:
    first, second = (claims(layout, mint(layout, lifetime_seconds=600)) for _ in range(2))
    assert first["jti"] != second["jti"]
