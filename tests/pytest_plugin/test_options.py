"""The options of the plugin, and the sentences for wrong ones."""

from __future__ import annotations

import re

import pytest

SHOWS_SETTINGS = """
from kmini.pytest_plugin.options import SETTINGS

def test_settings(request):
    print(*request.config.stash[SETTINGS][:-1], sep="|")
"""


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "function||False|{}|()"),
        (["-o", "kafka_scope=module"], "module||False|{}|()"),
        (["-o", "kafka_scope=module", "--kafka-scope=session"], "session||False|{}|()"),
        (["--kafka-bootstrap=kafka:9092,other"], "function|kafka:9092,other|False|{}|()"),
        (["--kafka-shared"], "function||True|{}|()"),
        (
            ["-o", "kafka_config=num.partitions = 3\nlog.retention.ms=1"],
            "{'num.partitions': '3', 'log.retention.ms': '1'}",
        ),
    ],
)
def test_command_line_and_ini_file_set_the_run(run_pytest, arguments: list[str], shown: str):
    result = run_pytest(SHOWS_SETTINGS, "-s", *arguments)
    result.assert_outcomes(passed=1)
    assert shown in result.stdout.str()


def test_the_environment_names_another_kafka_and_the_option_wins(run_pytest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "env:9092")
    assert "function|env:9092|" in run_pytest(SHOWS_SETTINGS, "-s").stdout.str()
    assert "function|option:1|" in run_pytest(SHOWS_SETTINGS, "-s", "--kafka-bootstrap=option:1").stdout.str()
    assert "function||" in run_pytest(SHOWS_SETTINGS, "-s", "--kafka-bootstrap=").stdout.str()


def test_a_suite_without_kafka_runs_with_any_environment(run_pytest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "no:address:at:all")
    run_pytest(SHOWS_SETTINGS).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kafka-scope=class"], "*error: argument --kafka-scope: invalid choice: 'class' (choose from *"),
        (["--kafka-scopes=module"], "*error: unrecognized arguments: --kafka-scopes=module"),
        (["-o", "kafka_scope=class"], "ERROR: kafka_scope = class in the ini file: session, module or function was*"),
        (["-o", "kafka_config=x"], "ERROR: kafka_config in the ini file: 'x' is no setting, key=value was expected"),
        (["--kafka-bootstrap=host:x"], "ERROR: --kafka-bootstrap: 'host:x' is no address: host:port was expected"),
    ],
)
def test_a_wrong_option_is_a_usage_error_in_one_sentence(run_pytest, arguments: list[str], sentence: str):
    result = run_pytest(SHOWS_SETTINGS, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])


def test_wrong_settings_of_the_ini_file_and_of_kafka_options_are_told(run_pytest):
    result = run_pytest("def test_it(kafka_broker): pass", "-o", "kafka_config=log.retention.msx=1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*UsageError: the fixture kafka_options, or kafka_config in the ini file: log.retention.msx=1: no such*"]
    )


BY_CHANCE = """
    def test_draws(kafka_broker, record_property):
        rule = kafka_broker.faults.on("Metadata", name="flaky").with_probability(0.5).error("LEADER_NOT_AVAILABLE")
        assert kafka_broker._faults.seed == {seed}
        assert False
"""


@pytest.mark.parametrize("scope", ["session", "function"])
def test_the_seed_of_fault_rules_is_that_of_the_option_and_is_shown(run_pytest, scope: str):
    result = run_pytest(BY_CHANCE.format(seed=41), "--kafka-seed=41", "--kafka-scope", scope, "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["kafka: fault rules draw by --kafka-seed=41", "faults  flaky: never acted, by chance (seed 41)"]
    )


def test_without_the_option_the_seed_is_0_and_the_head_does_not_show_it(run_pytest):
    result = run_pytest(BY_CHANCE.format(seed=0))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["faults  flaky: never acted, by chance (seed 0)"])
    assert "--kafka-seed" not in result.stdout.str()


def test_a_random_seed_is_the_same_for_all_workers(run_pytest):
    tests = "\n".join(
        f"""
        def test_{number}(kafka_broker):
            kafka_broker.faults.on("Metadata").with_probability(0.5).drop()
            assert False, f"drew by {{kafka_broker._faults.seed}}"
        """
        for number in range(4)
    )
    result = run_pytest(tests, "--kafka-seed=random", "-n", "2", "-v", plugins=("xdist",))
    drawn = set(re.findall(r"drew by (\d+)", result.stdout.str()))
    assert len(drawn) == 1
    result.stdout.fnmatch_lines([f"kafka: fault rules draw by --kafka-seed={drawn.pop()}"])


def test_a_seed_that_is_none_is_refused(run_pytest):
    result = run_pytest("def test_nothing(): pass", "--kafka-seed=often")
    result.stderr.fnmatch_lines(["ERROR: --kafka-seed=often: a whole number or random was expected"])


WAITS = """
import time
import pytest

def test_waits(kafka_broker):
    with pytest.raises(AssertionError, match="after MS ms"):
        kafka_broker.topic("orders").wait_for(1)
    with pytest.raises(AssertionError, match="after 1 ms"):
        kafka_broker.topic("orders").wait_for(1, timeout_ms=1)
"""


@pytest.mark.parametrize("arguments", [["--kafka-timeout=20ms"], ["-o", "kafka_timeout=20"]])
def test_the_time_of_waits_is_that_of_the_option_or_of_the_ini_file(run_pytest, arguments: list[str]):
    run_pytest(WAITS.replace("MS", "20"), *arguments).assert_outcomes(passed=1)


def test_the_environment_says_how_long_waits_are_and_workers_wait_longer(run_pytest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKA_TIMEOUT", "20ms")
    run_pytest(WAITS.replace("MS", "20")).assert_outcomes(passed=1)
    run_pytest(WAITS.replace("MS", "100"), "-n", "1", plugins=("xdist",)).assert_outcomes(passed=1)


@pytest.mark.parametrize("given", ["soon", "0", "-3"])
def test_a_time_of_waits_that_is_none_is_refused(run_pytest, given: str):
    result = run_pytest("def test_nothing(): pass", f"--kafka-timeout={given}")
    result.stderr.fnmatch_lines(
        [f"*kafka_timeout = {given}: a time as 30s, or a number of milliseconds, was expected*"]
    )
