"""What `KAFKA_*` variables mean, by the program in Apache Kafka that its own image runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kmini.broker.settings.properties import parse_properties
from kmini.cli.environment import NOT_SETTINGS, read_environment, variable_of
from support import apache_kafka

ENVIRONMENT = {
    "KAFKA_NODE_ID": "7",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@127.0.0.1:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENERS": "CONTROLLER://127.0.0.1:29093,PLAINTEXT_HOST://127.0.0.1:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT_HOST",
    "KAFKA_LOG_RETENTION_MS": "  60000",
    "KAFKA_BROKER_RACK": "a\\tb = c",
    "KAFKA_CONTROLLER_A__B___C____D_____E": "x",
    "KAFKA_KAFKA_METRICS_POLLING_INTERVAL_SECS": "9",
    "KAFKA_NUM_PARTITIONS": "2\nlog.segment.bytes=2000000",
    "KAFKA_SUPER_USERS": "",
    **dict.fromkeys(NOT_SETTINGS, "y"),
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "NO_KAFKA_VARIABLE": "z",
}


def test_variables_are_the_settings_that_apache_kafkas_image_makes_of_them(need_kafka: None, tmp_path: Path) -> None:
    defaults, mounted, final = (tmp_path / name for name in ("default", "mounted", "final"))
    for directory in (defaults, mounted, final):
        directory.mkdir()
    written = final / "server.properties"
    written.touch()
    environ = {**ENVIRONMENT, "KAFKA_LOG_DIRS": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        (defaults / name).write_text("Configuration:\n  Loggers:\n    Root:\n      level: INFO\n")
    wrapper = ["kafka.docker.KafkaDockerWrapper", "setup", "--default-configs-dir", str(defaults)]
    wrapper += ["--mounted-configs-dir", str(mounted), "--final-configs-dir", str(final)]
    environ.pop("KAFKA_LOG4J_LOGGERS")  # it would have to be well-formed
    finished = subprocess.run(
        [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), *wrapper],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert written.stat().st_size, finished.stderr
    assert read_environment(environ).properties == parse_properties(written.read_text())


NAMES = """
public class Names {
    public static void main(String[] arguments) {
        org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF.names().forEach(System.out::println);
    }
}
"""


def test_every_setting_of_apache_kafka_is_accepted_as_a_variable(need_kafka: None, tmp_path: Path) -> None:
    source = tmp_path / "Names.java"
    source.write_text(NAMES)
    command = [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), str(source)]
    names = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split()
    assert len(names) > 300
    several = {"process.roles", "controller.quorum.voters"}  # their values say whether there is more than one broker
    environ = {variable_of(name): "1" for name in names if name not in several}
    assert set(names) - several <= read_environment(environ).properties.keys()
