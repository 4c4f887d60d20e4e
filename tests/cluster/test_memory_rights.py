"""What ``deploy/components/memory`` permits: to the operator, and with the token that kubelets are shown."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from cluster.harming import HARMS
from cluster.kubelets import BEYOND, Kubelets, kubelets
from cluster.reader import ACCOUNT, RIGHTS, asked, token_of
from cluster.rights_ground import EVERYONES_PATHS, TOKEN_SECONDS, Ground, flat, granted, standing
from gen.rights import INSTALLED, MEMORY, READER, READER_TOKEN, rights_of
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.keys import NAMESPACE
from winpool.kubelet.samples import CONFIGZ_PATH, SUMMARY_PATH


@pytest.fixture(scope="module")
def permitted(testbed: Testbed) -> Iterator[Testbed]:
    """The testbed with what the component brings."""
    testbed.kubectl("apply", "-f", ACCOUNT, "-f", RIGHTS)
    try:
        eventually(lambda: asked(testbed)[0], what="a token of the reader")
        yield testbed
    finally:
        testbed.kubectl("delete", "-f", ACCOUNT, "-f", RIGHTS)


@pytest.fixture(scope="module")
def reader(permitted: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    token = token_of(permitted)
    with standing(permitted, directory=tmp_path_factory.mktemp("reader"), token=token) as ground:
        yield ground


@pytest.fixture(scope="module")
def served(permitted: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelets]:
    with kubelets(permitted, tmp_path_factory.mktemp("kubelets")) as found:
        yield found


# The token that kubelets are shown


@pytest.mark.parametrize("namespace", ["default", "kube-system", NAMESPACE])
def test_who_holds_the_token_may_read_two_things_of_nodes_and_nothing_else(
    reader: Ground, namespace: str
) -> None:
    rules = reader.rules(namespace)
    assert rules["incomplete"] is False
    assert flat(rules["resourceRules"]) - reader.everyones == {
        ("get", "", "nodes/stats", ""),
        ("get", "", "nodes/configz", ""),
    }
    assert granted(rights_of(READER)) == flat(rules["resourceRules"]) - reader.everyones
    paths = {path for rule in rules["nonResourceRules"] for path in rule["nonResourceURLs"]}
    assert paths == EVERYONES_PATHS


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_request_with_the_token_is_refused_and_changes_nothing(reader: Ground, harm: str) -> None:
    request = HARMS[harm]
    before = [reader.look(path) for path in request.targets]
    status, said = reader.send(request)
    assert status == HTTPStatus.FORBIDDEN, said
    assert [reader.look(path) for path in request.targets] == before


def test_the_token_does_not_list_nodes_and_goes_through_no_proxy_of_the_api_server(reader: Ground) -> None:
    (name, *_) = [each["metadata"]["name"] for each in reader.admin.ask("GET", "/api/v1/nodes")[1]["items"]]
    for path in ("/api/v1/nodes", f"/api/v1/nodes/{name}", f"/api/v1/nodes/{name}/proxy/stats/summary"):
        status, _ = reader.caller.ask("GET", path)
        assert status == HTTPStatus.FORBIDDEN, path


def test_a_kubelet_answers_it_with_statistics_and_settings_and_with_nothing_else(served: Kubelets) -> None:
    token = token_of(served.testbed)
    minor = int(served.nodes.get("w01")["status"]["nodeInfo"]["kubeletVersion"].split(".")[1])
    # Before 1.33 a kubelet asks for nodes/proxy, a right to run commands.
    wanted = {
        SUMMARY_PATH: HTTPStatus.OK,
        CONFIGZ_PATH: HTTPStatus.OK if minor >= 33 else HTTPStatus.FORBIDDEN,
    }
    found = {path: served.ask("w01", path, token=token).status for path in (*wanted, *BEYOND)}
    assert found == wanted | dict.fromkeys(BEYOND, HTTPStatus.FORBIDDEN)


# The operator


@pytest.fixture(scope="module")
def operator(permitted: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    token = permitted.mint_token(lifetime_seconds=TOKEN_SECONDS)
    with standing(permitted, directory=tmp_path_factory.mktemp("operator"), token=token) as ground:
        yield ground


@pytest.mark.parametrize("namespace", ["default", "kube-system", NAMESPACE])
def test_the_operator_has_the_rows_of_the_table_and_no_others(operator: Ground, namespace: str) -> None:
    roles = [role for role in (*INSTALLED, MEMORY, READER_TOKEN) if role.namespace in ("", namespace)]
    wanted = granted(right for role in roles for right in rights_of(role))

    def as_the_table_says() -> bool:
        return flat(operator.rules(namespace)["resourceRules"]) == wanted | operator.everyones

    assert eventually(as_the_table_says, what="the rights of the table")


def test_the_operator_gets_a_token_of_no_other_account(operator: Ground) -> None:
    for namespace, account in ((NAMESPACE, "winpool"), ("default", "default")):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status, said = operator.caller.ask("POST", path, {"spec": {}})
        assert status == HTTPStatus.FORBIDDEN, said
        assert 'cannot create resource "serviceaccounts/token"' in said["message"]
