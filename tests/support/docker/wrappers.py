"""What the modules of Testcontainers do with an image, read from their sources: command, script, and the line awaited.

Java 1.21.3, Go 0.40.0, Node 12.2.0 and 11.5.1, Python 4.15.0; .NET and Rust as of 2025. `test_real_modules.py` compares
it with what these modules do, but for Node 12, .NET and Rust. A script says `{port}` for the published
port, `{hostname}` for the container's name, and `{address}` for its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ANY_STREAM = ("stdout", "stderr")

RECOVERED = r".*Transitioning from RECOVERY to RUNNING.*"
STARTED = r".*\[KafkaServer id=\d+\] started.*"


class Wrapper(NamedTuple):
    """One way of one module to start a broker."""

    name: str
    command: list[str]
    """Entry point and command."""
    environ: Mapping[str, str]
    path: str
    """Of the script."""
    script: str
    mode: int
    port: int
    """The container's port that clients outside use."""
    awaited: str = ""
    """Empty for a module that waits for ports instead of a line."""
    streams: tuple[str, ...] = ANY_STREAM
    is_written_inside: bool = False
    """A program that runs in the container as its user writes the script, instead of the engine."""


COMMON = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
TRANSACTIONS = {
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
}
TWO_PROTOCOLS = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
THREE_PROTOCOLS = f"{TWO_PROTOCOLS},CONTROLLER:PLAINTEXT"
ZOOKEEPER = {
    **COMMON,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": TWO_PROTOCOLS,
    "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
}
KRAFT = {
    **COMMON,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_NODE_ID": "1",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": THREE_PROTOCOLS,
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
START_ZOOKEEPER = """\
echo 'clientPort=2181' > zookeeper.properties
echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties
echo 'dataLogDir=/var/lib/zookeeper/log' >> zookeeper.properties
zookeeper-server-start zookeeper.properties &
"""
FORMAT = (
    'echo \'kafka-storage format --ignore-formatted -t "4L6g3nShT-eMCtK--X86sw" -c /etc/kafka/kafka.properties'
    "%s' >> /etc/confluent/docker/configure\n"
)
NO_ZOOKEEPER = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"


def waiting(script: str, run: str = "", shell: tuple[str, ...] = ("sh", "-c")) -> list[str]:
    """The command of most modules: wait for the script, which says the published port, and run it."""
    return [*shell, f"while [ ! -f {script} ]; do sleep 0.1; done; {run}{script}"]


def _advertise(advertised: str) -> str:
    return f"export KAFKA_ADVERTISED_LISTENERS={advertised}\n"


# --- Java

JAVA_SCRIPT = "/tmp/testcontainers_start.sh"
JAVA = {
    **COMMON,
    **TRANSACTIONS,
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": THREE_PROTOCOLS,
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
JAVA_START = "#!/bin/bash\n" + _advertise("PLAINTEXT://localhost:{port},BROKER://{hostname}:9093")
OLD_JAVA_START = "#!/bin/bash\n" + _advertise("PLAINTEXT://localhost:{port},BROKER://{hostname}:9092")
JAVA_APACHE = Wrapper(
    "Java, KafkaContainer",
    waiting(JAVA_SCRIPT),
    JAVA,
    JAVA_SCRIPT,
    JAVA_START + "/etc/kafka/docker/run \n",
    0o777,
    9092,
    RECOVERED,
)
JAVA_CONFLUENT = JAVA_APACHE._replace(
    name="Java, ConfluentKafkaContainer", script=JAVA_START + "/etc/confluent/docker/run \n"
)
JAVA_ZOOKEEPER = Wrapper(
    "Java, the deprecated KafkaContainer",
    waiting(JAVA_SCRIPT),
    {**ZOOKEEPER, **TRANSACTIONS},
    JAVA_SCRIPT,
    OLD_JAVA_START
    + "echo '' > /etc/confluent/docker/ensure \n"
    + START_ZOOKEEPER.replace("zookeeper.properties", "/tmp/zookeeper.properties")
    + "/etc/confluent/docker/run \n",
    0o777,
    9093,
    STARTED,
)
JAVA_KRAFT = JAVA_ZOOKEEPER._replace(
    name="Java, the deprecated KafkaContainer with KRaft",
    environ={**KRAFT, **TRANSACTIONS},
    script=OLD_JAVA_START + NO_ZOOKEEPER + FORMAT % "" + "/etc/confluent/docker/run \n",
    awaited=RECOVERED,
)

# --- Go

GO_SCRIPT = "/usr/sbin/testcontainers_start.sh"
GO = Wrapper(
    "Go",
    waiting(GO_SCRIPT, "bash "),
    {
        **{key: text for key, text in KRAFT.items() if key != "CLUSTER_ID"},
        **TRANSACTIONS,
        "KAFKA_REST_BOOTSTRAP_SERVERS": KRAFT["KAFKA_LISTENERS"],
    },
    GO_SCRIPT,
    "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
    + _advertise("PLAINTEXT://localhost:{port},BROKER://{hostname}:9092")
    + "echo Starting Kafka KRaft mode\n"
    + NO_ZOOKEEPER
    + 'echo \'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)"'
    " -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n"
    "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
    0o755,
    9093,
    RECOVERED,
)
GO_WITH_CLUSTER_ID = GO._replace(name="Go, WithClusterID", environ={**GO.environ, "CLUSTER_ID": "kraftCluster"})

# --- Node: waits for ports, so that the broker's lines do not matter

NODE_SCRIPT = "/tmp/testcontainers_start.sh"
NODE_COMMAND = [
    "sh",
    "-c",
    f"echo 'Waiting for script...'; while [ ! -f {NODE_SCRIPT} ]; do sleep 0.1; done; {NODE_SCRIPT}",
]
NODE_OWN = {"KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false", "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1"}
NODE_START = "#!/bin/bash\n" + _advertise("BROKER://{hostname}:9092,PLAINTEXT://localhost:{port}")
NODE = Wrapper(
    "Node, tag 8.0.0 or later",
    NODE_COMMAND,
    {**KRAFT, **NODE_OWN, "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092"},
    NODE_SCRIPT,
    NODE_START + "/etc/confluent/docker/run \n",
    0o777,
    9093,
)
NODE_11 = NODE._replace(
    name="Node, release 11",
    command=[word.replace(NODE_SCRIPT, "/testcontainers_start.sh") for word in NODE_COMMAND],
    path="/testcontainers_start.sh",
)
"""The last release for Node 20."""
NODE_ZOOKEEPER = NODE._replace(
    name="Node, tag before 8.0.0",
    environ={**ZOOKEEPER, **NODE_OWN, "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092"},
    script=NODE_START + "echo '' > /etc/confluent/docker/ensure \n" + START_ZOOKEEPER + "/etc/confluent/docker/run \n",
)
NODE_KEYSTORE = "/etc/kafka/secrets/server.keystore.pfx"
"""Where the module copies the store that the test gives it."""
NODE_KEYSTORE_PASSWORD = "serverKeystorePassword"
NODE_SASL = NODE._replace(
    name="Node, withSaslSslListener",
    environ={
        **NODE.environ,
        "KAFKA_LISTENERS": f"SECURE://0.0.0.0:9096,{KRAFT['KAFKA_LISTENERS']}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{TWO_PROTOCOLS},SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "KAFKA_SSL_PROTOCOL": "TLSv1.2",
        "KAFKA_SSL_KEYSTORE_LOCATION": NODE_KEYSTORE,
        "KAFKA_SSL_KEYSTORE_PASSWORD": NODE_KEYSTORE_PASSWORD,
        "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12",
        "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    },
    script=NODE_START.rstrip("\n")
    + ",SECURE://localhost:{port}\n"
    + FORMAT % ' --add-scram "SCRAM-SHA-512=[name=app-user,password=userPassword]"'
    + "/etc/confluent/docker/run \n",
    port=9096,
)

# --- Python

PYTHON_FLUSH = {"KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000"}
PYTHON_END = (
    _advertise("PLAINTEXT://localhost:{port},BROKER://$(hostname -i):9092")
    + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch\n"
)
PYTHON = Wrapper(
    "Python",
    waiting("/tc-start.sh", "sh "),
    {**{key: text for key, text in ZOOKEEPER.items() if key != "KAFKA_ZOOKEEPER_CONNECT"}, **PYTHON_FLUSH},
    "/tc-start.sh",
    f"#!/bin/bash\n\n{START_ZOOKEEPER}export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n\n{PYTHON_END}",
    0o644,
    9093,
    STARTED,
)
PYTHON_KRAFT = PYTHON._replace(
    name="Python, with_kraft",
    environ={**KRAFT, **PYTHON_FLUSH, "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk"},
    script="#!/bin/bash\n"
    + NO_ZOOKEEPER
    + "echo 'kafka-storage format --ignore-formatted -t MkU3OEVBNTcwNTJENDM2Qk -c /etc/kafka/kafka.properties'"
    " >> /etc/confluent/docker/configure\n" + PYTHON_END,
    awaited=r".*Kafka Server started.*",
)

# --- .NET

DOTNET_START = "#!/bin/bash\n" + _advertise("PLAINTEXT://127.0.0.1:{port},BROKER://{address}:9093,")
DOTNET = {
    **KRAFT,
    **TRANSACTIONS,
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
ONLY_KRAFT = ("KAFKA_PROCESS_ROLES", "KAFKA_CONTROLLER_LISTENER_NAMES")
DOTNET_ZOOKEEPER = Wrapper(
    ".NET, for Confluent's image",
    waiting("/testcontainers.sh", shell=("/bin/sh", "-c")),
    {
        **{name: text for name, text in DOTNET.items() if name not in ONLY_KRAFT},
        "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
    },
    "/testcontainers.sh",
    DOTNET_START + "echo '' > /etc/confluent/docker/ensure\n" + START_ZOOKEEPER + "exec /etc/confluent/docker/run\n",
    0o755,
    9092,
    r"\[KafkaServer id=\d+\] started",
)
DOTNET_APACHE = DOTNET_ZOOKEEPER._replace(
    name=".NET, for Apache's image",
    environ=DOTNET,
    script=DOTNET_START + "echo '' > /etc/kafka/docker/ensure\nexec /etc/kafka/docker/run",
    awaited=RECOVERED,
)

# --- Rust

RUST_SCRIPT = "/opt/kafka/testcontainers_start.sh"
RUST = Wrapper(
    "Rust, apache",
    ["bash", "-c", f"while [ ! -f {RUST_SCRIPT}  ]; do sleep 0.1; done; chmod 755 {RUST_SCRIPT} && {RUST_SCRIPT}"],
    {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
        "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": THREE_PROTOCOLS,
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9092",
        "KAFKA_BROKER_ID": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    },
    RUST_SCRIPT,
    "#!/usr/bin/env bash\n"
    + _advertise("PLAINTEXT://127.0.0.1:{port},BROKER://localhost:9093")
    + "/etc/kafka/docker/run \n",
    0o644,
    9092,
    "Kafka Server started",
    ("stdout",),
    is_written_inside=True,
)

WRAPPERS = (
    JAVA_APACHE,
    JAVA_CONFLUENT,
    JAVA_ZOOKEEPER,
    JAVA_KRAFT,
    GO,
    NODE,
    NODE_11,
    PYTHON,
    PYTHON_KRAFT,
    DOTNET_ZOOKEEPER,
    DOTNET_APACHE,
    RUST,
)
