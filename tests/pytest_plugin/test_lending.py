"""The fixtures, in every scope and in every kind of test."""

from __future__ import annotations

import pytest

SCOPES = pytest.mark.parametrize("scope", ["session", "module", "function"])

EMPTY_EACH_TIME = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_topics_are_those_of_the_test(kafka_broker, kafka_topic, number):
    assert kafka_broker.topics() == [kafka_topic]
    assert kafka_broker.records(kafka_topic) == []
    kafka_broker.produce(kafka_topic, b"one")
    kafka_broker.produce("other", b"one")

@pytest.mark.kafka(topics={"orders": 2})
def test_topics_of_the_marker_are_there_as_well(kafka_broker, kafka_topic):
    assert sorted(kafka_broker.topics()) == sorted([kafka_topic, "orders"])
    kafka_broker.produce("orders", b"one", partition=1)

def test_topics_of_other_markers_are_not(kafka_broker):
    assert kafka_broker.topics() == []
"""


@SCOPES
def test_each_test_finds_the_broker_as_it_was_after_its_start(run_pytest, scope: str):
    run_pytest(EMPTY_EACH_TIME, "--kafka-scope", scope).assert_outcomes(passed=5)


@SCOPES
def test_the_topics_of_kafka_options_are_there_in_each_test_and_empty(run_pytest, scope: str):
    conftest = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_options():
        return {"topics": {"orders": 2}, "config": {"auto.create.topics.enable": False}}
    """
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(2))
    def test_orders(kafka_broker, number):
        assert kafka_broker.topics() == ["orders"]
        assert kafka_broker.records("orders") == []
        kafka_broker.produce("orders", b"one", partition=1)
        with pytest.raises(Exception, match="there is no topic others"):
            kafka_broker.produce("others", b"one")
    """
    run_pytest(text, "--kafka-scope", scope, conftest=conftest).assert_outcomes(passed=2)


@SCOPES
def test_every_test_starts_from_the_seed_which_is_run_once(run_pytest, scope: str):
    conftest = """
    import pytest

    runs = []

    @pytest.fixture(scope="session")
    def kafka_seed():
        def seed(broker):
            runs.append(broker)
            broker.create_topic("prices")
            broker.topic("prices").produce(b"100", key=b"apple")
            broker.group("shops").commit({("prices", 0): 1})
        yield seed
        assert len(runs) == 1
    """
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(3))
    def test_prices(kafka_broker, number):
        prices, shops = kafka_broker.topic("prices"), kafka_broker.group("shops")
        assert [record.value for record in prices.records()] == [b"100"]
        assert shops.offsets() == {("prices", 0): 1}
        prices.produce(b"200", key=b"apple")
        shops.commit({("prices", 0): 2})

    @pytest.mark.kafka(topics=["orders"])
    def test_topics_of_the_marker_are_there_as_well(kafka_broker):
        assert {"orders", "prices"} <= {*kafka_broker.topics()}
        assert [record.value for record in kafka_broker.records("prices")] == [b"100"]
    """
    run_pytest(text, "--kafka-scope", scope, conftest=conftest).assert_outcomes(passed=4)


@SCOPES
def test_modules_may_have_seeds_of_their_own(run_pytest, pytester: pytest.Pytester, scope: str):
    text = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_seed():
        return lambda broker: broker.create_topic(__name__)

    def test_the_seed_is_that_of_the_module(kafka_broker):
        assert kafka_broker.topics() == [__name__]
    """
    pytester.makepyfile(test_other=text)
    run_pytest(text, "--kafka-scope", scope, ".").assert_outcomes(passed=2)


def test_a_seed_that_fails_fails_the_test_and_leaves_no_broker(run_pytest, leaves_nothing: None):
    conftest = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_seed():
        return lambda broker: broker.records("prices")
    """
    for scope in ("session", "function"):
        result = run_pytest("def test_it(kafka_broker): pass", "--kafka-scope", scope, conftest=conftest)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*there is no topic prices; there are none"])


def test_the_scope_says_which_tests_have_one_broker(run_pytest):
    text = """
    import pytest

    seen = []

    @pytest.mark.parametrize("number", range(2))
    def test_default(kafka_broker, number):
        seen.append(kafka_broker)

    @pytest.mark.kafka(scope="session")
    @pytest.mark.parametrize("number", range(2))
    def test_session(kafka_broker, number):
        seen.append(kafka_broker)

    @pytest.mark.kafka(scope="session", topics=["orders"])
    def test_topics_need_no_other_broker(kafka_broker):
        seen.append(kafka_broker)

    @pytest.mark.kafka(scope="session", config={"num.partitions": 2})
    @pytest.mark.parametrize("number", range(2))
    def test_settings_do(kafka_broker, number):
        seen.append(kafka_broker)

    def test_brokers():
        first, second, third, fourth, fifth, sixth, seventh = seen
        assert len({first, second, third, sixth}) == 4
        assert third is fourth is fifth
        assert sixth is seventh
    """
    run_pytest(text).assert_outcomes(passed=8)


def test_a_module_has_a_broker_of_its_own(run_pytest, pytester: pytest.Pytester):
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(2))
    def test_it(kafka_broker, number, brokers):
        brokers.append(kafka_broker.bootstrap_servers)
    """
    conftest = """
    import pytest

    @pytest.fixture(scope="session")
    def brokers():
        brokers = []
        yield brokers
        assert brokers[0] == brokers[1] != brokers[2] == brokers[3]
    """
    pytester.makepyfile(test_second=text)
    run_pytest(text, "--kafka-scope=module", conftest=conftest).assert_outcomes(passed=4)


def test_names_are_those_of_the_test(run_pytest):
    text = """
    import pytest

    @pytest.mark.parametrize("text", ["a/b c", "long" * 100])
    def test_it(kafka_broker, kafka_topic, kafka_group_id, text):
        assert kafka_topic.startswith("test_it-")
        assert kafka_group_id.startswith("test_it-")
        assert kafka_topic != kafka_group_id
        assert kafka_broker.offsets(kafka_topic).high_watermark == 0
    """
    run_pytest(text).assert_outcomes(passed=2)


def test_names_address_and_clock_are_those_of_the_cluster_where_a_test_has_one(run_pytest):
    text = """
    import pytest

    def test_cluster(kafka_cluster, kafka_topic, kafka_bootstrap_servers, kafka_clock):
        assert kafka_cluster.topics() == [kafka_topic]
        assert kafka_bootstrap_servers == kafka_cluster.bootstrap_servers
        assert len(kafka_bootstrap_servers.split(",")) == len(kafka_cluster.brokers()) == 3
        kafka_clock.advance("1d")
        assert kafka_clock.now_ms() == pytest.approx(kafka_cluster.clock.now_ms(), abs=60_000)

    @pytest.mark.kafka(brokers=2)
    def test_marked(kafka_topic, kafka_bootstrap_servers):
        assert len(kafka_bootstrap_servers.split(",")) == 2

    def test_broker(kafka_broker, kafka_bootstrap_servers, kafka_clock):
        assert kafka_bootstrap_servers == kafka_broker.bootstrap_servers
        before = kafka_broker.clock.now_ms()
        kafka_clock.advance("1d")
        assert kafka_broker.clock.now_ms() >= before + 86_400_000
    """
    run_pytest(text).assert_outcomes(passed=3)


def test_a_unittest_has_them_by_an_autouse_fixture(run_pytest):
    text = """
    import unittest
    import pytest

    class TestOrders(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def _fixtures(self, kafka_broker, kafka_topic):
            self.broker, self.topic = kafka_broker, kafka_topic

        def test_one(self):
            self.broker.produce(self.topic, b"one")
            self.assertEqual(len(self.broker.records(self.topic)), 1)

        @pytest.mark.kafka(topics=["orders"])
        def test_two(self):
            self.assertEqual(sorted(self.broker.topics()), sorted([self.topic, "orders"]))
    """
    run_pytest(text, "--kafka-scope=session").assert_outcomes(passed=2)


def test_a_worker_has_a_broker_of_its_own(run_pytest):
    text = """
    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_it(kafka_broker, kafka_topic, number):
        assert kafka_broker.topics() == [kafka_topic]
        kafka_broker.produce(kafka_topic, b"one")
    """
    run_pytest(text, "-n", "2", "--kafka-scope=session", plugins=("xdist",)).assert_outcomes(passed=8)


def test_the_order_of_tests_does_not_matter(run_pytest):
    for seed in range(3):
        result = run_pytest(EMPTY_EACH_TIME, "--kafka-scope=session", f"--randomly-seed={seed}", plugins=("randomly",))
        result.assert_outcomes(passed=5)


def test_a_run_without_a_broker_imports_none(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KMINI_PURE", raising=False)  # which chooses modules of the protocol
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take most of the time
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            assert {name for name in sys.modules if name.startswith("kmini.")} == {
                "kmini.testkit",
                "kmini.testkit.patience",
                "kmini.pytest_plugin",
                "kmini.pytest_plugin.marker",
                "kmini.pytest_plugin.options",
                "kmini.pytest_plugin.report_section",
            }
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "kmini.pytest_plugin").assert_outcomes(passed=1)


# --- the schema registry

REGISTRY = """
import json, urllib.request
import pytest

def subjects(url):
    with urllib.request.urlopen(url + "/subjects", timeout=60) as answer:
        return json.load(answer)

def test_the_fixture_is_enough(kafka_registry_url, kafka_broker):
    assert subjects(kafka_registry_url) == []
    assert kafka_broker.registry_url == kafka_registry_url

def test_it_may_be_that_of_a_cluster(kafka_cluster, kafka_registry_url):
    assert subjects(kafka_registry_url) == []
    assert kafka_cluster.registry_url == kafka_registry_url

@pytest.mark.kafka(registry=True)
def test_the_marker_is_enough(kafka_broker):
    assert subjects(kafka_broker.registry_url) == []

def test_others_have_none(kafka_broker):
    assert kafka_broker.registry_url == ""
"""


@SCOPES
def test_a_test_has_a_registry_if_it_wants_one(run_pytest, scope: str):
    run_pytest(REGISTRY, "--kafka-scope", scope).assert_outcomes(passed=4)


def test_kafka_options_give_every_test_a_registry_that_is_reset(run_pytest):
    conftest = """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_options():
        return {"registry": True}
    """
    text = """
    import json, urllib.request
    import pytest

    SEEN = set()

    @pytest.mark.parametrize("number", range(2))
    def test_the_registry(kafka_broker, kafka_registry_url, number):
        with urllib.request.urlopen(kafka_registry_url + "/config", timeout=60) as answer:
            assert json.load(answer) == {"compatibilityLevel": "BACKWARD"}
        request = urllib.request.Request(kafka_registry_url + "/config", b'{"compatibility": "FULL"}', method="PUT")
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=60).close()
        SEEN.add(kafka_registry_url)
        assert len(SEEN) == 1
    """
    run_pytest(text, "--kafka-scope", "session", conftest=conftest).assert_outcomes(passed=2)


def test_without_kmini_the_registry_is_that_of_the_environment_or_the_test_is_skipped(run_pytest, monkeypatch):
    from kmini import Broker

    text = "def test_it(kafka_registry_url): assert kafka_registry_url == 'http://registry:8081'"
    with Broker() as broker:
        where = ("--kafka-bootstrap", broker.bootstrap_servers)
        monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
        run_pytest(text, *where).assert_outcomes(skipped=1)
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://registry:8081")
        run_pytest(text, *where).assert_outcomes(passed=1)
