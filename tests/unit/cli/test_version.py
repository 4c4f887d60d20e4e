"""``kubectl winpool version``: what it knows of operator and CRD, and where they do not fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from winpool import __version__
from winpool.api.crd import definition
from winpool.cli.console import Look
from winpool.cli.kubectl import LEASE_PATH, Kubectl, KubectlError
from winpool.cli.version import Versions, as_content, as_text, misfits, read_versions, version_of

if TYPE_CHECKING:
    from unit.cli.conftest import Plugin

CRD: dict[str, Any] = {**definition(), "metadata": {"generation": 3}}
REFUSED = KubectlError("The connection to the server 127.0.0.1:1 was refused")


def pod(name: str, image: str) -> dict[str, Any]:
    containers = [{"name": "proxy", "image": "proxy:9.9.9"}, {"name": "operator", "image": image}]
    return {"metadata": {"name": name}, "spec": {"containers": containers}}


class Server(Kubectl):
    """Answers what the test says: a CRD, the Pods of the operator, and who holds the Lease."""

    def __init__(
        self,
        crd: dict[str, Any] | KubectlError = CRD,
        pods: tuple[dict[str, Any], ...] | KubectlError = (),
        holder: str | KubectlError = "winpool-a_1",
    ) -> None:
        super().__init__()
        self._answers = {
            "customresourcedefinitions": crd,
            "/pods": pods if isinstance(pods, KubectlError) else {"items": [*pods]},
            LEASE_PATH: holder if isinstance(holder, KubectlError) else {"spec": {"holderIdentity": holder}},
        }
        self.calls = 0

    def get(self, path: str, **_: str) -> bytes:
        self.calls += 1
        answer = next(answer for part, answer in self._answers.items() if part in path)
        if isinstance(answer, KubectlError):
            raise answer
        return json.dumps(answer).encode()


def read(server: Server) -> Versions:
    with server:
        return read_versions(server)


def ours(name: str, version: str = __version__) -> dict[str, Any]:
    return pod(name, f"registry.example:5000/team/winpool:{version}")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("winpool:0.1.0", "0.1.0"),
        ("registry.example:5000/a/winpool:v1.2.3-rc.1", "1.2.3-rc.1"),
        ("winpool:0.1.0@sha256:00ff", "0.1.0"),
        ("registry.example:5000/winpool@sha256:00ff", None),
        ("registry.example:5000/winpool", None),
        ("winpool:latest", None),
        ("", None),
    ],
)
def test_the_version_of_an_image_is_its_tag(image: str, version: str | None) -> None:
    assert version_of(image) == version


def test_the_version_of_the_operator_is_that_of_the_pod_that_leads() -> None:
    server = Server(pods=(ours("winpool-a"), ours("winpool-b", "0.0.9")))
    found = read(server)
    assert (found.operator, found.problems, server.calls) == (__version__, (), 3)
    content = as_content(found)
    assert content["operator"]["version"] == __version__
    assert [(each["name"], each["leads"]) for each in content["operator"]["pods"]] == [
        ("winpool-a", True),
        ("winpool-b", False),
    ]
    assert content["crd"] == {"versions": ["v1alpha1"], "generation": 3, "lackingFields": []}
    (misfit,) = content["misfits"]
    assert misfit.startswith(f"the operator is of version 0.0.9 and the plugin of {__version__}: install")


def test_what_fits_is_shown_without_a_word_about_it() -> None:
    found = read(Server(pods=(ours("winpool-a"), ours("winpool-b"))))
    assert [*misfits(found)] == []
    assert as_text(found, look=Look()).splitlines() == [
        f"Client:    {__version__}",
        f"Operator:  {__version__} (winpool-a, registry.example:5000/team/winpool:{__version__}, leads)",
        f"Operator:  {__version__} (winpool-b, registry.example:5000/team/winpool:{__version__})",
        "CRD:       v1alpha1, generation 3",
    ]


def test_fields_that_the_crd_lacks_are_named() -> None:
    old = json.loads(json.dumps(CRD))
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["memoryPressure"]
    found = read(Server(old, (ours("winpool-a"),)))
    assert found.crd is not None
    assert found.crd.lacking_fields == ["spec.memoryPressure"]
    (misfit,) = misfits(found)
    assert misfit.startswith(f"the CRD lacks spec.memoryPressure of version {__version__}. Apply the CRD")


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (Server(), "winpool-a_1 holds the Lease winpool-system/winpool and is no Pod of the operator there"),
        (Server(holder=""), "no Pod of an operator is in the namespace winpool-system"),
        (
            Server(pods=(pod("winpool-a", "winpool:latest"),)),
            "the tag of the image winpool:latest of the Pod",
        ),
    ],
)
def test_an_operator_whose_version_nothing_says_is_not_known(server: Server, problem: str) -> None:
    found = read(server)
    assert found.operator is None
    (said,) = found.problems
    assert said.startswith(problem)


def test_without_a_leader_all_pods_have_to_agree() -> None:
    same = read(Server(pods=(ours("winpool-a"), ours("winpool-b")), holder=""))
    assert (same.operator, same.problems) == (__version__, ())
    assert read(Server(pods=(ours("winpool-a"), ours("winpool-b", "0.0.9")), holder="")).operator is None


def test_what_may_not_be_read_is_told_and_the_rest_is_shown() -> None:
    def forbidden(what: str) -> KubectlError:
        return KubectlError(f'Error from server (Forbidden): {what} is forbidden: User "jane" cannot get it')

    server = Server(forbidden("the CRD"), forbidden("the Pods"), forbidden("the Lease"))
    found = read(server)
    assert [each.partition(": ")[0] for each in found.problems] == [
        "the CRD is not known",
        "which Pod leads is not known",
        "the operator is not known",
    ]
    missing = KubectlError('Error from server (NotFound): customresourcedefinitions "x" not found')
    found = read(Server(missing, (ours("winpool-a"),)))
    assert (found.operator, found.crd) == (__version__, None)
    assert found.problems[0].endswith("is not installed: kubectl apply -f install.yaml, or helm install")


def test_a_server_that_does_not_answer_is_asked_once() -> None:
    server = Server(REFUSED)
    found = read(server)
    (problem,) = found.problems
    assert "The connection to the server 127.0.0.1:1 was refused" in problem
    assert (found.operator, found.crd, server.calls) == (None, None, 1)
    assert "Operator:  not known" in as_text(found, look=Look())


def test_without_a_cluster_the_version_of_the_plugin_is_shown_and_the_exit_code_is_1(plugin: Plugin) -> None:
    ended = plugin("version")
    assert (ended.code, ended.out[0]) == (1, f"Client:    {__version__}")
    assert "kubectl cannot be started" in ended.err[0]


def test_the_version_of_the_plugin_alone_needs_no_cluster(plugin: Plugin) -> None:
    ended = plugin("version", "--client", "--context", "x")
    assert (ended.code, ended.out) == (0, [f"Client:    {__version__}"])
    assert ended.err[0].startswith("--context has no effect: ")
    as_json = plugin("version", "--client", "-o", "json")
    assert json.loads("\n".join(as_json.out)) == {"client": {"version": __version__}}
    assert yaml.safe_load("\n".join(plugin("version", "--client", "-o", "yaml").out)) == {
        "client": {"version": __version__}
    }
