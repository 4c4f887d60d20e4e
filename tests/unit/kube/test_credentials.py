"""Kubeconfigs and pods: what is found, in which order, and what is said where it is not."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from yarl import URL

from winpool.kube.credentials import Connection, Proxy, load_connection
from winpool.kube.errors import CredentialsError

SERVER = "https://127.0.0.1:6443"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a self-signed ca.crt and its tls.key."""
    folder = tmp_path_factory.mktemp("pki")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder


def a_kubeconfig(
    folder: Path,
    *,
    user: Any,
    cluster: dict[str, Any] | None = None,
    file: str = "kubeconfig",
    **changes: Any,
) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c", "user": "stranger"}},
        ],
        "current-context": "x",
        **changes,
    }
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def load(path: str, **more: Any) -> Connection:
    return await load_connection(kubeconfig=path, environ={}, **more)


async def test_a_token_in_the_kubeconfig(tmp_path: Path) -> None:
    found = await load(a_kubeconfig(tmp_path, user={"token": "s3cret\n"}))
    assert found.server == SERVER
    assert await found.authorization.header() == "Bearer s3cret"
    assert "s3cret" not in repr(found)


async def test_a_token_file_is_relative_to_the_kubeconfig_and_stands_above_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    found = await load(a_kubeconfig(tmp_path, user={"tokenFile": "token", "token": "inline"}))
    assert await found.authorization.header() == "Bearer from-file"


async def test_a_token_file_may_come_later(tmp_path: Path) -> None:
    found = await load(a_kubeconfig(tmp_path, user={"tokenFile": "token"}))
    with pytest.raises(CredentialsError, match="cannot be read"):
        await found.authorization.header()
    (tmp_path / "token").write_text("late")
    assert await found.authorization.header() == "Bearer late"


async def test_a_client_certificate_speaks_for_itself(tmp_path: Path, pki: Path) -> None:
    user = {"client-certificate": str(pki / "ca.crt"), "client-key": str(pki / "tls.key")}
    found = await load(
        a_kubeconfig(tmp_path, user=user, cluster={"certificate-authority": str(pki / "ca.crt")})
    )
    assert await found.authorization.header() is None
    assert found.tls.context().verify_mode is ssl.CERT_REQUIRED
    assert found.tls.context().check_hostname
    assert len(found.tls.context().get_ca_certs()) == 1


async def test_what_a_cluster_may_say_about_tls_and_proxies(tmp_path: Path) -> None:
    cluster = {
        "server": f"{SERVER}/",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://127.0.0.1:3128",
        "insecure-skip-tls-verify": True,
    }
    found = await load(a_kubeconfig(tmp_path, user={"token": "t"}, cluster=cluster))
    assert (found.server, found.server_hostname) == (SERVER, "kubernetes")
    assert found.proxy == Proxy(URL("http://127.0.0.1:3128"))
    assert found.tls.context().verify_mode is ssl.CERT_NONE


async def test_a_field_that_is_not_known_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = {"proxy-uri": "http://p:1", "disable-compression": True, "extensions": []}
    await load(a_kubeconfig(tmp_path, user={"token": "t", "as-group": ["dev"]}, cluster=cluster))
    assert caplog.messages == [
        "kubeconfig user 'u': winpool does not know the field 'as-group' and ignores it",
        "kubeconfig cluster 'c': winpool does not know the field 'proxy-uri' and ignores it",
    ]


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "gke"}}, "an exec plugin"),
        ({"auth-provider": {"name": "gcp"}}, "an auth provider"),
        ({"username": "a", "password": "s3cret"}, "a password"),
    ],
)
async def test_what_it_does_not_log_in_by_is_refused_with_what_it_takes(
    tmp_path: Path, user: dict[str, Any], what: str
) -> None:
    with pytest.raises(CredentialsError) as caught:
        await load(a_kubeconfig(tmp_path, user=user))
    assert (
        f"has {what}, which the operator does not log in by: give it a token, a tokenFile or a client"
        in str(caught.value)
    )
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"user": {}}, "has no credentials for its user"),
        ({"user": {"token": "  "}}, "has no credentials for its user"),
        ({"user": None}, "Expected key user"),
        ({"user": "s3cret"}, "not the shape"),
        ({"user": {"token": "t"}, "current-context": "missing"}, "Expected object with name missing"),
        ({"user": {"token": "t"}, "current-context": "nobody"}, "no user named 'stranger'"),
        (
            {"user": {"token": "t"}, "cluster": {"server": "http://127.0.0.1:8080"}},
            "must begin with https://",
        ),
        ({"user": {"token": "t"}, "cluster": {"certificate-authority": "missing.crt"}}, "missing.crt"),
        ({"user": {"token": "t"}, "cluster": {"certificate-authority-data": "bm8="}}, "certificate"),
        ({"user": {"token": "s3cret"}, "users": [{"name": "u", "token": "s3cret"}]}, "Expected key user"),
        ({"user": {"token": "t", "as-groups": ["admins"]}}, "but no `as`: name the user to act as"),
        ({"user": {"token": "t", "as-uid": "1"}}, "but no `as`: name the user to act as"),
        ({"user": {"token": "t", "as-user-extra": {"k": ["v"]}}}, "but no `as`: name the user to act as"),
        ({"user": {"token": "t", "as": "jane\r\nX: y"}}, "Impersonate-User is not a line of text"),
        ({"user": {"token": "t", "as": ["jane"]}}, "Impersonate-User is not a line of text"),
        ({"user": {"token": "t", "as": "jane", "as-groups": "dev"}}, "as-groups is a list of names"),
        ({"user": {"token": "t", "as": "jane", "as-user-extra": {"k": "v"}}}, "has a list for each key"),
        *(
            ({"user": {"token": "t"}, "cluster": {"server": server}}, problem)
            for server, problem in (
                ("https://u:s3cret@127.0.0.1:6443", "names a user: put it and its password"),
                ("https://s3cret@127.0.0.1:6443", "names a user: put it and its password"),
                ("http://u:s3cret@127.0.0.1:8080", "must begin with https://"),
                ("https://u:s3cret@127.0.0.1:port", "is not a URL"),
                ("https://u:p/s3cret@127.0.0.1", "is not a URL"),
                ("https://:6443", "is not a URL"),
                ("https://[::1", "is not a URL"),
                ("https://127.0.0.1:99999", "is not a URL"),
            )
        ),
        (
            {"user": {"token": "t"}, "cluster": {"proxy-url": "socks5://u:s3cret@127.0.0.1:1080"}},
            "asks for a SOCKS proxy",
        ),
    ],
)
async def test_an_unusable_kubeconfig_says_what_is_wrong_and_shows_no_secret(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    path = a_kubeconfig(tmp_path, **changes)
    with pytest.raises(CredentialsError) as caught:
        await load(path)
    assert problem in caught.value.message
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not the shape of a kubeconfig"),
        ("[1, 2]", "not the shape of a kubeconfig"),
        ("token: s3cret\n  bad: [", "not YAML at line 2"),
        ("\x00", "not the shape of a kubeconfig"),
    ],
)
async def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(CredentialsError) as caught:
        await load(str(path))
    assert problem in caught.value.message
    assert "s3cret" not in str(caught.value)


async def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="does not exist"):
        await load(str(tmp_path / "missing"))


async def test_another_context_may_be_chosen(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"current-context": "missing"}
    path = a_kubeconfig(tmp_path, user={"token": "t"}, **changes)
    found = await load(path, context="x")
    assert await found.authorization.header() == "Bearer t"


# Where they are looked for


@pytest.fixture
def pod(tmp_path: Path, pki: Path) -> Path:
    """A ServiceAccount folder as the kubelet makes it."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "ca.crt").write_bytes((pki / "ca.crt").read_bytes())
    (folder / "token").write_text("from-pod")
    (folder / "namespace").write_text("winpool-system")
    return folder


IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_pod_finds_its_service_account_and_rereads_the_token(pod: Path) -> None:
    found = await load_connection(environ=IN_CLUSTER, service_account_folder=pod)
    assert found.server == "https://[fd00::1]:443"
    header = await found.authorization.header()
    assert header == "Bearer from-pod"
    (pod / "token").write_text("renewed")
    found.authorization.reject(header)
    assert await found.authorization.header() == "Bearer renewed"


async def test_kubeconfig_stands_above_the_pod(tmp_path: Path, pod: Path) -> None:
    path = a_kubeconfig(tmp_path, user={"token": "t"})
    found = await load_connection(environ={**IN_CLUSTER, "KUBECONFIG": path}, service_account_folder=pod)
    assert found.server == SERVER


async def test_the_home_folder_comes_last(tmp_path: Path, pod: Path) -> None:
    a_kubeconfig(tmp_path, user={"token": "t"}, file=".kube/config")
    home = {"HOME": str(tmp_path)}
    assert (await load_connection(environ=home)).server == SERVER
    found = await load_connection(environ={**home, **IN_CLUSTER}, service_account_folder=pod)
    assert found.server == "https://[fd00::1]:443"


async def test_nothing_found_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="give --kubeconfig, set KUBECONFIG, or run in a pod"):
        await load_connection(environ={"HOME": str(tmp_path)})


@pytest.mark.parametrize("missing", ["token", "ca.crt", "namespace"])
async def test_a_pod_without_its_service_account_says_so(pod: Path, missing: str) -> None:
    (pod / missing).unlink()
    with pytest.raises(CredentialsError, match="ServiceAccount of this pod"):
        await load_connection(environ=IN_CLUSTER, service_account_folder=pod)


async def test_a_pod_in_another_namespace_is_refused_with_what_to_do(pod: Path) -> None:
    (pod / "namespace").write_text("other")
    with pytest.raises(CredentialsError, match=r"in winpool-system only.*Remove `namespace: other`"):
        await load_connection(environ=IN_CLUSTER, service_account_folder=pod)
