"""Whether the settings that tests ask for are those of a broker that runs elsewhere, where they cannot be made so."""

from __future__ import annotations

from collections.abc import Mapping

from kmini.broker.settings.broker_config import BROKER_KEYS
from kmini.client import Client, ConfigResource


async def differences(client: Client, configs: Mapping[str, str]) -> list[str]:
    """Compare broker settings with those of any broker; return a phrase for each that differs: "log.retention.hours is
    168, not 24". Raises KafkaError."""
    if not configs:
        return []
    node_id = (await client.metadata([])).brokers[0].node_id
    found = await client.describe_configs(ConfigResource.broker(node_id), [*configs])
    there = {entry.name: "hidden" if entry.is_sensitive else entry.value for entry in found}
    return [
        f"{name} is {_shown(name, there)}, not {wanted}"
        for name, wanted in sorted(configs.items())
        if name not in there or not _are_same(name, wanted, there[name])
    ]


def _shown(name: str, there: Mapping[str, str | None]) -> str:
    return (there[name] or "unset") if name in there else "unknown"


def _are_same(name: str, one: str, other: str | None) -> bool:
    """Whether two texts are one value of a setting: "1000.0" and "1000", "TRUE" and "true"."""
    line = BROKER_KEYS.get(name)
    if line is None:
        return one.strip() == (other or "")
    try:
        return bool(line.parse(one) == line.parse(other or ""))
    except ValueError:
        return False
