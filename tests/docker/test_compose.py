"""The dev stack's compose files: what compose reads in them, and whether what they name is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kmini.broker.settings.broker_config import BrokerConfig
from kmini.cli.environment import read_environment
from kmini.cli.init_directory import files_in
from support.docker.compose import compose_model, why_not
from support.docker.dockerfile import BROKER, DOCKER, ROOT, Instruction, last_of, read_stages, tag

SINGLE = ("compose.yaml",)
CLUSTER = ("compose.yaml", "compose.cluster.yaml")
STACKS = pytest.mark.parametrize("files", [SINGLE, CLUSTER], ids=["one broker", "three brokers"])

Service = dict[str, Any]


@pytest.fixture(scope="module")
def image() -> dict[str, Instruction]:
    return last_of(read_stages()[BROKER])


def services_of(files: tuple[str, ...], **environ: str) -> dict[str, Service]:
    if reason := why_not():
        pytest.skip(reason)
    services: dict[str, Service] = compose_model(*files, **environ)["services"]
    return services


def ports_of(service: Service) -> dict[int, str]:
    """The published ports of a service, as `address:port` of the host."""
    return {port["target"]: f"{port['host_ip']}:{port['published']}" for port in service.get("ports", ())}


def image_environ(image: dict[str, Instruction]) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in image["ENV"].words)


@STACKS
def test_compose_reads_a_broker_a_producer_a_consumer_and_the_metrics_as_a_profile(files: tuple[str, ...]) -> None:
    services = services_of(files)
    profiles = {name: service.get("profiles", []) for name, service in services.items()}
    assert profiles == {"broker": [], "producer": [], "consumer": [], "prometheus": ["metrics"], "grafana": ["metrics"]}
    for name in ("producer", "consumer", "prometheus"):
        assert services[name]["depends_on"]["broker"]["condition"] == "service_healthy"
    for name in ("producer", "consumer"):
        assert services[name]["environment"] == {"KAFKA_BOOTSTRAP_SERVERS": "broker:9092"}
        assert (DOCKER / "sample" / services[name]["command"][1]).is_file()


@STACKS
def test_what_is_built_is_a_stage_of_the_dockerfile_and_has_its_tag(files: tuple[str, ...]) -> None:
    built = {name: service for name, service in services_of(files).items() if "build" in service}
    assert set(built) == {"broker", "producer"}
    for service in built.values():
        assert service["build"]["target"] in read_stages()
        assert Path(service["build"]["context"]) == ROOT
        assert ROOT / service["build"]["dockerfile"] == DOCKER / "Dockerfile"
        assert service["image"].endswith(f":{tag()}")


@STACKS
def test_images_that_are_fetched_are_pinned_by_their_digests(files: tuple[str, ...]) -> None:
    fetched = [one["image"] for one in services_of(files).values() if not one["image"].endswith(f":{tag()}")]
    assert len(fetched) == 2  # Prometheus and Grafana
    for image in fetched:
        assert re.fullmatch(r"[\w/]+:[\w.]+@sha256:[0-9a-f]{64}", image)


@STACKS
def test_what_is_mounted_is_there_and_cannot_be_changed_from_inside(files: tuple[str, ...], image) -> None:
    services = services_of(files)
    mounts = [mount for service in services.values() for mount in service.get("volumes", ())]
    binds = [mount for mount in mounts if mount["type"] == "bind"]
    assert len(binds) == 4  # the init directory, Prometheus' file, and Grafana's two directories
    for mount in binds:
        assert Path(mount["source"]).exists(), mount
        assert mount["read_only"]
    by_target = {mount["target"]: mount for mount in services["broker"]["volumes"]}
    assert by_target[image_environ(image)["KAFKA_LOG_DIRS"]]["type"] == "volume"
    assert by_target[image_environ(image)["KMINI_INIT_DIR"]]["type"] == "bind"


@STACKS
def test_all_ports_are_published_to_this_machine_alone(files: tuple[str, ...]) -> None:
    ports = {name: ports_of(service) for name, service in services_of(files).items()}
    published = [address for one in ports.values() for address in one.values()]
    assert all(address.startswith("127.0.0.1:") for address in published)
    assert len(set(published)) == len(published)
    kafka = range(9092, 9095) if files == CLUSTER else range(9092, 9093)
    assert ports["broker"] == {port: f"127.0.0.1:{port}" for port in (*kafka, 8081, 8090)}


@STACKS
def test_the_broker_runs_without_rights_on_a_root_that_cannot_be_written(files: tuple[str, ...]) -> None:
    broker = services_of(files)["broker"]
    assert broker["read_only"]
    assert broker["tmpfs"] == ["/tmp"]
    assert broker["cap_drop"] == ["ALL"]
    assert broker["security_opt"] == ["no-new-privileges:true"]


@STACKS
def test_the_broker_takes_its_variables_and_needs_no_listeners(files: tuple[str, ...], image) -> None:
    said = services_of(files)["broker"]["environment"]
    assert not [name for name in said if "LISTENER" in name]
    environment = read_environment({**image_environ(image), **said})
    config = BrokerConfig.parse(environment.properties)
    assert environment.ignored == []
    assert environment.registry_port == 8081
    assert environment.brokers == (3 if files == CLUSTER else 1)
    assert config.default_replication_factor == environment.brokers


@STACKS
def test_the_token_is_the_users_or_none_and_prometheus_gets_it_as_a_file(files: tuple[str, ...]) -> None:
    if reason := why_not():
        pytest.skip(reason)
    for environ, token in (({}, ""), ({"KMINI_HTTP_TOKEN": "of-the-user"}, "of-the-user")):
        model = compose_model(*files, **environ)
        assert model["services"]["broker"]["environment"]["KMINI_HTTP_TOKEN"] == token
        (secret,) = model["services"]["prometheus"]["secrets"]
        assert model["secrets"][secret["source"]]["environment"] == "KMINI_HTTP_TOKEN"
        config = next(one for one in model["services"]["prometheus"]["volumes"])["source"]
        (job,) = yaml.safe_load(Path(config).read_text())["scrape_configs"]
        assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret['source']}"


@STACKS
def test_prometheus_asks_each_broker_of_the_stack(files: tuple[str, ...]) -> None:
    services = services_of(files)
    (config,) = services["prometheus"]["volumes"]
    (job,) = yaml.safe_load(Path(config["source"]).read_text())["scrape_configs"]
    assert {target for one in job["static_configs"] for target in one["targets"]} == {"broker:8090"}
    brokers = int(services["broker"]["environment"].get("KMINI_BROKERS", "1"))
    assert [one["labels"]["broker"] for one in job["static_configs"]] == [str(n + 1) for n in range(brokers)]


@STACKS
def test_grafana_finds_its_files_where_its_settings_say(files: tuple[str, ...]) -> None:
    grafana = services_of(files)["grafana"]
    mounts = {mount["target"]: Path(mount["source"]) for mount in grafana["volumes"]}
    (provider,) = yaml.safe_load((mounts["/etc/grafana/provisioning"] / "dashboards" / "kmini.yaml").read_text())[
        "providers"
    ]
    folder = mounts[provider["options"]["path"]]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(provider["options"]["path"])
    assert (folder / Path(home).name).is_file()
    datasources = yaml.safe_load((mounts["/etc/grafana/provisioning"] / "datasources" / "prometheus.yaml").read_text())
    assert datasources["datasources"][0]["url"] == "http://prometheus:9090"


@pytest.mark.parametrize("folder", ["init", "cluster/init"])
def test_the_stacks_init_directory_has_only_files_that_can_be_run(folder: str) -> None:
    files = files_in(str(DOCKER / folder))
    assert [file.name for file in files] == ["10-shop.topics", "20-profiles.jsonl"]
    for file in files:
        file.check()


def test_no_other_projects_page_is_part_of_the_stack() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    assert not [name for name, one in services.items() if "akhq" in one["image"] or "ui" in name]
