"""Spark's Kafka connector and its Avro functions: the one folder of their jars, which `kmini pipeline jars` fills."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

JARS_VARIABLE = "KMINI_SPARK_JARS"
NAME = "spark-sql-kafka-0-10_2.13"
CONNECTOR = f"org.apache.spark:{NAME}:{pyspark.__version__}"
"""Spark's Kafka connector of Spark's own release, as Maven knows it."""
AVRO_NAME = "spark-avro_2.13"
AVRO = f"org.apache.spark:{AVRO_NAME}:{pyspark.__version__}"
"""Spark's functions for Avro, which only pipelines with Avro values need."""
NOT_FETCHED = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"
"""Dependencies of 50 MB that Spark has; the small ones are fetched and left out."""
FETCH_WITHIN_S = 600
NO_AVRO = f"Spark {pyspark.__version__} has no {AVRO_NAME}, for values in Avro: `kmini pipeline jars` fetches it"


class ConnectorError(Exception):
    """The connector could not be fetched; the message says which one, and why."""


def jars_folder() -> Path:
    """`KMINI_SPARK_JARS`, or the folder of this release of Spark in the user's cache."""
    if named := os.environ.get(JARS_VARIABLE):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kmini" / f"spark-{pyspark.__version__}"


def connector_jars() -> list[Path]:
    """The connector of this Spark and the jars beside it; empty if its folder has none of the same minor release."""
    jars = sorted(jars_folder().glob("*.jar"))
    return jars if _has(jars, NAME) else []


def why_no_connector() -> str | None:
    """Why Spark could not speak to Kafka, or None if it can."""
    if connector_jars():
        return None
    return (
        f"Spark {pyspark.__version__} has no Kafka connector in {jars_folder()}: "
        "`kmini pipeline jars` fetches it, in 10 MB"
    )


def why_no_avro() -> str | None:
    """Why Spark could not read and write Avro, or None if it can."""
    return None if _has(connector_jars(), AVRO_NAME) else NO_AVRO


def fetch_connector() -> list[Path]:
    """Put the connector, Spark's Avro functions and what they need beside Spark into `jars_folder`, and return the
    jars; fetch none that is there. Spark's own Ivy fetches, so a mirror is set as for `spark-submit --packages`.

    Raises `ConnectorError`.
    """
    jars = connector_jars()
    packages = [package for name, package in ((NAME, CONNECTOR), (AVRO_NAME, AVRO)) if not _has(jars, name)]
    if not packages:
        return jars
    folder = jars_folder()
    if not jars and (others := sorted(folder.glob(f"{NAME}-*.jar"))):
        raise ConnectorError(f"{others[0]} is of another release than Spark {pyspark.__version__}: use another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".fetching-") as temporary:
            _fill(folder, Path(temporary), ",".join(packages))
    except OSError as error:
        raise ConnectorError(f"{' and '.join(packages)} cannot be put into {folder}: {error}") from error
    return connector_jars()


def _has(jars: list[Path], name: str) -> bool:
    """Whether a jar of that name is of the same minor release as Spark."""
    minor = pyspark.__version__.rsplit(".", 1)[0]
    return any(jar.name.startswith(f"{name}-{minor}.") for jar in jars)


def _fill(folder: Path, temporary: Path, packages: str) -> None:
    home = Path(pyspark.__file__).parent
    program = temporary / "nothing.py"
    program.touch()
    submit = home / "bin" / ("spark-submit.cmd" if os.name == "nt" else "spark-submit")
    command = [str(submit), "--master", "local[1]", "--packages", packages, "--exclude-packages", NOT_FETCHED]
    command += ["--conf", f"spark.jars.ivy={temporary}", str(program)]
    environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment.pop("PYSPARK_DRIVER_PYTHON", None)
    try:
        fetched = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConnectorError(f"{packages} could not be fetched within {FETCH_WITHIN_S} seconds") from None
    if fetched.returncode:
        reasons = [line for line in fetched.stderr.splitlines() if line.startswith("Exception in thread")]
        reason = (reasons or fetched.stderr.splitlines() or ["no reason given"])[-1]
        raise ConnectorError(f"{packages} could not be fetched: {reason.rpartition('Exception: ')[2]}")
    there = {_artifact(jar.name) for jar in (home / "jars").iterdir()}
    jars = {jar.name.partition("_")[2]: jar for jar in (temporary / "jars").iterdir()}  # GROUP_ARTIFACT-VERSION.jar
    for name in sorted(jars, key=lambda name: name.startswith(NAME)):  # the connector last: with it all are there
        if _artifact(name) not in there:
            os.replace(jars[name], folder / name)


def _artifact(jar: str) -> str:
    """The name of a jar without its version."""
    return re.sub(r"-\d[^-]*\.jar$", "", jar)
