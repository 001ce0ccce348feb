"""`--command-config FILE`: a file of settings with a mistake is refused before a broker is asked."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kmini.cli.delete_records import kafka_delete_data

OAUTH = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS", "security.protocol=TLS is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("request.timeout.ms=soon", "request.timeout.ms=soon: a number of milliseconds was expected"),
        ("client.id=\\u12", "is no properties file: line 1"),
        (OAUTH, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, or for a token without a signature unsecured"),
        (f"{OAUTH}sasl.jaas.config=Module\n", "sasl.jaas.config must be of the form CLASS required"),
        (f"{OAUTH}{ENDPOINT}=tokens", f"{ENDPOINT}=tokens: a URL was expected"),
        (f"{OAUTH}{ENDPOINT}=http://x/", "client.id and sasl.oauthbearer.client.credentials.client.secret are needed"),
    ],
)
def test_settings_of_the_client_are_checked(tmp_path, text: str, said: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(text)
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"partitions": [{"topic": "orders", "partition": 0, "offset": 4}], "version": 1}')
    result = CliRunner().invoke(
        kafka_delete_data,
        ["--bootstrap-server", "x:1", "--command-config", str(config), "--offset-json-file", str(offsets)],
    )
    assert result.exit_code == 2
    assert said in result.stderr
