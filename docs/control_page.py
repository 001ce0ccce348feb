"""docs/reference/control-api.md: the requests of the control API, from its route table."""

from __future__ import annotations

from markdown_page import NOTE, one_line, table

from kmini.control.openapi import openapi_document
from kmini.testkit.cluster import ClusterOperations
from kmini.testkit.embedded import BrokerOperations


def control_api() -> str:
    """A table for each subject: the request, its arguments, and what it does."""
    one, several = (openapi_document(table)["paths"] for table in (BrokerOperations, ClusterOperations))
    rows: dict[str, list[tuple[str, ...]]] = {}
    for path in dict.fromkeys((*several, *one)):
        for verb in dict.fromkeys((*several.get(path, {}), *one.get(path, {}))):
            broker, cluster = one.get(path, {}).get(verb), several.get(path, {}).get(verb)
            operation = broker or cluster
            only = "" if broker and cluster else " *(a broker only)*" if broker else " *(a cluster only)*"
            text = f"{one_line(operation['summary'])}{only}"
            rows.setdefault(operation["tags"][0], []).append((f"`{verb.upper()} {path}`", _arguments(operation), text))
    return (
        f"{NOTE}# Requests of the control API\n\n"
        "[The control API](../control-api.md) explains their use. Arguments in bold must be given. GET and DELETE take "
        "arguments as a query, the other verbs as members of a JSON object. `/api/v1/openapi.json` has their types and "
        "the answers (OpenAPI 3.1). Beside these requests there are `/health`, `/health/live`, `/health/ready` and "
        "`/metrics` (Prometheus; `?broker=` chooses one of several).\n"
        + "".join(
            f"\n## {subject[:1].upper()}{subject[1:]}\n\n{table(('request', 'arguments', ''), about)}"
            for subject, about in rows.items()
        )
    )


def _arguments(operation: dict) -> str:
    in_query = [(one["name"], one.get("required", False)) for one in operation["parameters"] if one["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    in_body = [(name, name in body["required"]) for name in body.get("properties", {})]
    found = [(name, needed) for name, needed in (*in_query, *in_body) if name != "decode"]
    return ", ".join(f"**`{name}`**" if needed else f"`{name}`" for name, needed in found)
