"""The configuration of the Prometheus that tests run."""

from typing import Any

import yaml

from testbed.prometheus_config import ScrapeJob, render

JOB = ScrapeJob(name="windows-exporter", targets={"w01": "127.3.0.1:9182", "w02": "127.3.0.2:9182"})


def parsed(*jobs: ScrapeJob, interval_seconds: int = 1) -> dict[str, Any]:
    return dict(yaml.safe_load(render(jobs, interval_seconds=interval_seconds)))


def test_each_exporter_is_a_target_whose_series_get_the_name_of_its_node() -> None:
    [job] = parsed(JOB)["scrape_configs"]
    assert job["job_name"] == "windows-exporter"
    found = {each["targets"][0]: each["labels"] for each in job["static_configs"]}
    [rule] = job["relabel_configs"]
    assert rule["target_label"] == "node"
    [source] = rule["source_labels"]
    assert found == {"127.3.0.1:9182": {source: "w01"}, "127.3.0.2:9182": {source: "w02"}}
    # Prometheus drops such labels from series, so the rule is what names the node.
    assert source.startswith("__")


def test_a_job_may_name_nodes_by_another_label_and_have_no_targets() -> None:
    [job] = parsed(ScrapeJob(name="again", targets={}, node_label="nodename"))["scrape_configs"]
    assert job["static_configs"] == []
    assert [rule["target_label"] for rule in job["relabel_configs"]] == ["nodename"]


def test_a_job_may_name_no_node_and_honour_what_the_series_say() -> None:
    plain, forged = parsed(JOB, ScrapeJob(name="shop", targets={}, node_label=None, honor_labels=True))[
        "scrape_configs"
    ]
    assert forged["relabel_configs"] == []
    assert (plain["honor_labels"], forged["honor_labels"]) == (False, True)


def test_targets_may_have_further_labels() -> None:
    [job] = parsed(ScrapeJob(name="shop", targets={"w01": "127.3.0.1:1"}, labels={"team": "a"}))[
        "scrape_configs"
    ]
    [target] = job["static_configs"]
    assert sorted(target["labels"].values()) == ["a", "w01"]


def test_a_scrape_takes_no_longer_than_its_interval_and_never_more_than_ten_seconds() -> None:
    found = {seconds: parsed(interval_seconds=seconds)["global"] for seconds in (1, 60)}
    assert found[1] == {"scrape_interval": "1s", "scrape_timeout": "1s"}
    assert found[60] == {"scrape_interval": "60s", "scrape_timeout": "10s"}


def test_data_is_kept_for_an_hour() -> None:
    assert parsed()["storage"] == {"tsdb": {"retention": {"time": "1h"}}}
