"""The marker `kafka`: what it asks for, how markers add up, and the sentences for wrong ones."""

from __future__ import annotations

import pytest

from kmini.pytest_plugin.marker import Wanted


def test_markers_of_class_and_function_add_up_and_the_nearest_wins(run_pytest):
    text = """
    import pytest
    from kmini.pytest_plugin.marker import Wanted, wanted

    @pytest.mark.kafka(topics=["a", "b"], config={"num.partitions": 1, "log.retention.ms": 1}, scope="module")
    class TestOrders:
        @pytest.mark.kafka(topics={"b": 3}, config={"num.partitions": 2}, scope="function", as_version="3.9", brokers=2)
        def test_it(self, request):
            assert wanted(request.node) == Wanted(
                {"a": {}, "b": 3}, {"num.partitions": 2, "log.retention.ms": 1}, 2, "3.9", scope="function"
            )
    """
    run_pytest(text).assert_outcomes(passed=1)


def test_only_settings_need_another_broker():
    assert not Wanted(topics={"orders": 1}, scope="session").needs_own_settings
    for asks in (
        Wanted(config={"num.partitions": 1}),
        Wanted(brokers=1),
        Wanted(as_version="3.9"),
        Wanted(registry=True),
        Wanted(tls="auto"),
    ):
        assert asks.needs_own_settings


def test_a_marked_broker_is_as_the_marker_says(run_pytest):
    text = """
    import pytest
    from kmini.client import Client

    @pytest.mark.kafka(topics={"orders": 3}, config={"log.retention.ms": 61_000}, as_version="3.9")
    async def test_broker(kafka_broker):
        assert kafka_broker.topics() == ["orders"]
        from kmini.client import ConfigResource
        async with Client(kafka_broker.bootstrap_servers) as client:
            (one,) = await client.describe_configs(ConfigResource.topic("orders"), ["retention.ms"])
            assert one.value == "61000"
            (version,) = await client.describe_configs(ConfigResource.broker(1), ["kmini.as.version"])
            assert version.value == "3.9"
            assert len(await client.partitions("orders")) == 3

    @pytest.mark.kafka(tls="auto", sasl="PLAIN", users={"alice": "x"}, acls=["alice All topic:orders"])
    def test_security(kafka_broker):
        settings = kafka_broker.client_config("librdkafka")
        assert (settings["security.protocol"], settings["sasl.username"]) == ("SASL_SSL", "alice")

    @pytest.mark.kafka(brokers=2, topics=["orders"], as_version="3.9")
    def test_cluster(kafka_cluster):
        assert kafka_cluster.brokers() == [1, 2]
        assert kafka_cluster.topics() == ["orders"]
    """
    run_pytest(text, "-o", "asyncio_mode=auto", plugins=("asyncio",)).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("topicz=[]", f"there is no argument topicz; there are {', '.join(Wanted._fields)}"),
        ("['orders']", f"['orders'] has no name; its arguments are {', '.join(Wanted._fields)}"),
        ("tls='yes'", "tls='yes': must be one of auto, mutual, or None"),
        (
            "sasl='KERBEROS'",
            "sasl='KERBEROS': must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or None",
        ),
        ("topics='orders'", "topics='orders': names of topics, or a mapping to partitions, were expected"),
        ("topics={'orders': 0}", "topics['orders']['partitions']=0: must be a number of partitions, 1 or more"),
        ("config=[1]", "config=[1]: a mapping of Kafka's setting names to values was expected"),
        ("config={'log.retention.msx': 1}", "log.retention.msx=1: no such setting (did you mean log.retention.ms?)"),
        ("as_version='9.9'", "kmini.as.version=9.9: must be one of 2.8, 3.9, 4.0, 4.3"),
        ("as_version=3.9", 'as_version=3.9: a release as str was expected, as "3.9"'),
        ("scope='class'", "scope='class': session, module or function was expected"),
        ("brokers=0", "brokers=0: a number of brokers, 1 or more, was expected"),
        ("brokers=True", "brokers=True: a number of brokers, 1 or more, was expected"),
        ("brokers=3", "kafka_broker is one broker; brokers=3 needs the fixture kafka_cluster"),
    ],
)
def test_a_wrong_marker_is_a_usage_error_in_one_sentence(run_pytest, arguments: str, sentence: str):
    result = run_pytest(f"""
    import pytest

    @pytest.mark.kafka({arguments})
    def test_orders(kafka_broker): pass
    """)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert line == (
        "ERROR: @pytest.mark.kafka of test_a_wrong_marker_is_a_usage_error_in_one_sentence.py::test_orders: " + sentence
    )


def test_a_wrong_marker_fails_its_test_alone_in_a_worker(run_pytest):
    text = """
    import pytest

    @pytest.mark.kafka(scope="class")
    def test_orders(kafka_broker): pass

    def test_other(): pass
    """
    result = run_pytest(text, "-n", "1", plugins=("xdist",))
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["@pytest.mark.kafka of *::test_orders: scope='class': session, module or*"])
