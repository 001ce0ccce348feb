"""`--init-dir`: files that a start runs, when all is ready, what a failure says, and what a restart repeats."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from kmini.cli.init_directory import InitDirectory, files_in
from kmini.storage.filenames import INIT_DONE
from support.control_api import ControlApi, control_api
from support.until import until

PATH = {"PATH": os.environ["PATH"]}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "ready.d"
    path.mkdir()
    return path


@pytest.fixture
def api() -> Iterator[ControlApi]:
    with control_api(topics={}) as served:
        yield served


def run(api: ControlApi, directory: Path, topics: list[Any] | None = None) -> bool:
    """Run the files; whether all have succeeded."""
    init = InitDirectory(files_in(str(directory)), [] if topics is None else topics, 30_000)
    return api.run(init.run(api.managed, PATH))


def missing(api: ControlApi) -> str:
    """What readiness says is missing."""
    answer = api.send("GET", "/health")
    assert answer.status == 503
    assert not answer.document["is_ready"]
    (text,) = answer.document["missing"]
    assert isinstance(text, str)
    return text


def values(api: ControlApi, topic: str) -> list[str]:
    return [record["value"] for record in api.done("GET", f"/topics/{topic}/records")]


def test_files_are_run_in_the_order_of_their_names(api: ControlApi, directory: Path) -> None:
    (directory / "2.sh").write_text(f"echo 2 >> {directory.parent}/ran")
    (directory / "10.sh").write_text(f"echo 10 >> {directory.parent}/ran")
    (directory / "A.sh").write_text(f"echo A >> {directory.parent}/ran")
    (directory / "README.md").write_text("what the others are")
    (directory / ".hidden").write_text("nothing")
    assert [file.name for file in files_in(str(directory))] == ["10.sh", "2.sh", "A.sh"]
    assert run(api, directory)
    assert (directory.parent / "ran").read_text() == "10\n2\nA\n"


def test_topics_records_rules_and_scripts_are_done_before_it_is_ready(api: ControlApi, directory: Path) -> None:
    (directory / "1.topics").write_text("# of the shop\norders:3:1\r\nprofiles:1:1:compact\n")
    (directory / "2.jsonl").write_text('{"topic": "orders", "key": "a", "value": {"n": 1}, "partition": 2}\r\n\n')
    (directory / "3.json").write_text('{"rules": [{"name": "slow", "when": {"api": ["Fetch"]}, "do": [{"delay": 1}]}]}')
    (directory / "4.sh").write_text(f"echo done > {directory.parent}/ran")
    assert run(api, directory)
    assert api.send("GET", "/health").status == 200
    assert api.done("GET", "/topics") == ["orders", "profiles"]
    (record,) = api.done("GET", "/topics/orders/records")
    assert (record["partition"], record["value"]) == (2, '{"n":1}')
    assert [rule["name"] for rule in api.done("GET", "/faults")] == ["slow"]
    assert (directory.parent / "ran").read_text() == "done\n"


WRONG = {
    "10.topics": ("orders:3:1\n\nprofiles\n", "10.topics, line 3: profiles: name:partitions:replicas or "),
    "11.topics": ("a b:1:1", "11.topics, line 1: a b: "),
    "12.jsonl": ('{"topic": "a", "value": "1"}\n{"topic": "a"}\n', '12.jsonl, line 2: a JSON object with "topic" and '),
    "13.jsonl": ('{"topic": "a", "value": "1"}\nnonsense\n', "13.jsonl, line 2 is no JSON: "),
    "14.jsonl": ('{"topic": "a b", "value": "1"}', "14.jsonl, line 1: topic 'a b': "),
    "15.jsonl": ('{"topic": "a", "value": "1", "partition": 7}', "15.jsonl, line 1: there is no partition 7 of a"),
    "16.json": ("[{}\n\n,]", "16.json, line 3: JSON was expected: "),
    "17.json": ('{"rule": []}', '17.json: a list of fault rules was expected, or {"rules": [...]}'),
    "18.json": ('[{"name": "x", "on": 1}]', "18.json: rules[0]: a rule has no 'on'"),
    "19.sh": ("true\r\nfalse", "19.sh, line 1: ends as lines of Windows do (CRLF)"),
    "20.sh": ("echo secret; exit 7", "20.sh: ended with exit code 7; the log has its output"),
    "21.txt": ("x", "21.txt: must end in .topics, .jsonl, .json, .sh; "),
}


@pytest.mark.parametrize("name", WRONG)
def test_readiness_names_the_file_that_failed_with_its_line_and_what_was_expected(
    api: ControlApi, directory: Path, name: str, caplog
) -> None:
    (directory / "00.topics").write_text("a:1:1")
    (directory / name).write_text(WRONG[name][0])
    (directory / "99.sh").write_text(f"touch {directory.parent}/ran")
    assert not run(api, directory)
    said = missing(api)
    assert said.startswith(f"init directory: {WRONG[name][1]}"), said
    assert str(directory) not in said
    assert said in [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert not (directory.parent / "ran").exists(), "files behind it are not run"
    api.done("POST", "/produce", {"topic": "a", "value": "the broker goes on"})
    assert values(api, "a") == ["the broker goes on"], "no record of a file with a mistake is appended"


def test_a_name_that_cannot_be_run_is_told_before_any_file_is_run(api: ControlApi, directory: Path) -> None:
    (directory / "1.sh").write_text(f"touch {directory.parent}/ran")
    (directory / "2.topics").mkdir()
    assert not run(api, directory)
    assert "2.topics: a directory, and a file was expected" in missing(api)
    assert not (directory.parent / "ran").exists()


def test_a_file_that_goes_away_is_named(api: ControlApi, directory: Path) -> None:
    (directory / "1.sh").write_text(f"rm {directory}/2.sh")
    (directory / "2.sh").write_text("true")
    assert not run(api, directory)
    assert missing(api) == (
        f"init directory: 2.sh: cannot be read: No such file or directory (kmini runs as user {os.geteuid()})"
    )


def test_an_empty_file_is_said_in_the_log_and_no_failure(api: ControlApi, directory: Path, caplog) -> None:
    for name in ("1.topics", "2.jsonl", "3.json", "4.sh"):
        (directory / name).touch()
    assert run(api, directory)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"init directory: {name} is empty" for name in ("1.topics", "2.jsonl", "3.json", "4.sh")
    ]


def test_while_files_are_run_readiness_says_which(api: ControlApi, directory: Path) -> None:
    (directory / "1.sh").write_text(f"until test -e {directory.parent}/go; do sleep 0.01; done")
    (directory / "2.sh").write_text("true")
    (directory / "3.sh").write_text("true")
    init = InitDirectory(files_in(str(directory)), [], 60_000)
    init.announce(api.managed)
    first = "init directory: 1.sh is not done yet, nor the 2 files after it"
    assert missing(api) == first
    runs = threading.Thread(target=lambda: api.run(init.run(api.managed, PATH)))
    runs.start()
    assert missing(api) == first
    (directory.parent / "go").touch()
    runs.join(60)
    assert api.send("GET", "/health").status == 200


# --- what is repeated


def test_with_kept_data_records_and_scripts_are_not_run_again_and_topics_and_rules_are(
    api: ControlApi, directory: Path, caplog
) -> None:
    caplog.set_level("INFO", "kmini.init")
    (directory / "1.topics").write_text("orders:1:1")
    (directory / "2.jsonl").write_text('{"topic": "orders", "value": "seed"}')
    (directory / "3.json").write_text('[{"name": "slow", "when": {"api": ["Fetch"]}, "do": [{"delay": 1}]}]')
    (directory / "4.sh").write_text(f"echo x >> {directory.parent}/ran")
    assert run(api, directory)
    api.done("DELETE", "/topics/orders")
    api.done("DELETE", "/faults")
    (directory / "2.jsonl").write_text('{"topic": "orders", "value": "another"}')
    caplog.clear()
    assert run(api, directory)
    assert values(api, "orders") == []
    assert [rule["name"] for rule in api.done("GET", "/faults")] == ["slow"]
    assert (directory.parent / "ran").read_text() == "x\n"
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("2.jsonl: run before, for these data; it has changed since, and is not run again: ")
    assert said[1:] == ["4.sh: run before, for these data", "init directory: done"]


def test_a_script_that_failed_is_run_again_by_the_next_start(api: ControlApi, directory: Path) -> None:
    (directory / "1.sh").write_text(f"echo x >> {directory.parent}/ran; exit 1")
    assert not run(api, directory)
    (directory / "1.sh").write_text(f"echo y >> {directory.parent}/ran")
    assert run(api, directory)
    assert api.send("GET", "/health").status == 200
    assert (directory.parent / "ran").read_text() == "x\ny\n"


def test_records_whose_loading_was_interrupted_are_not_doubled_in_silence(api: ControlApi, directory: Path) -> None:
    (directory / "1.jsonl").write_text('{"topic": "orders", "value": "seed"}')
    assert run(api, directory)
    memory = Path(api.data_dir, INIT_DONE)
    document = json.loads(memory.read_text())
    document["files"]["1.jsonl"]["state"] = "begun"  # as a start leaves it that is killed while it loads
    memory.write_text(json.dumps(document))
    assert not run(api, directory)
    assert "1.jsonl: an earlier start ended while it was loaded, and these data have a part of" in missing(api)
    (directory / "1.jsonl").rename(directory / "2.jsonl")
    assert run(api, directory)
    assert values(api, "orders") == ["seed", "seed"]


def test_a_memory_that_cannot_be_read_is_said(api: ControlApi, directory: Path) -> None:
    (directory / "1.sh").write_text("true")
    for text in ("", "[]", '{"cluster_id": 1}', '{"cluster_id": "x", "files": {"1.sh": 3}}'):
        text = text.replace('"x"', json.dumps(api.done("GET", "")["cluster_id"]))
        Path(api.data_dir, INIT_DONE).write_text(text)
        is_ours = run(api, directory)
        if text == '{"cluster_id": 1}':
            assert is_ours, "it is of another cluster, whose data are gone"
        else:
            assert "init-done.json of the data directory cannot be read" in missing(api)


def test_what_another_cluster_has_run_is_run_again(api: ControlApi, directory: Path) -> None:
    (directory / "1.sh").write_text(f"echo x >> {directory.parent}/ran")
    files = {"1.sh": {"digest": "0", "state": "done"}}
    Path(api.data_dir, INIT_DONE).write_text(json.dumps({"cluster_id": "another", "files": files}))
    assert run(api, directory)
    assert (directory.parent / "ran").read_text() == "x\n"


def test_topics_of_files_are_those_that_a_start_creates_again(api: ControlApi, directory: Path) -> None:
    (directory / "1.topics").write_text("orders:3:1\n")
    topics: list[Any] = []
    assert run(api, directory, topics)
    assert [(topic.name, topic.partitions) for topic in topics] == [("orders", 3)]


def test_a_cluster_gets_topics_with_replicas_and_records(directory: Path) -> None:
    (directory / "1.topics").write_text("orders:2:3")
    (directory / "2.jsonl").write_text("".join(f'{{"topic": "orders", "value": "{n}"}}\n' for n in range(10)))
    with control_api(3, topics={}) as api:
        assert run(api, directory)
        assert api.done("GET", "/topics/orders/isr?partition=0") == [1, 2, 3]
        assert sorted(values(api, "orders"), key=int) == [str(n) for n in range(10)]


# --- kmini serve

Begin = Callable[..., tuple[Any, str]]


def health(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"{url}health", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def serve(start) -> Begin:
    """Start `kmini serve --http 0` with more arguments: the process, and the link of the control API."""

    def begin(*arguments: object, **options: Any) -> tuple[Any, str]:
        process = start("serve", "--port", 0, "--http", 0, *arguments, **options)
        assert process.stdout.readline().startswith("127.0.0.1:")
        return process, process.stdout.readline().partition("#")[0].strip()

    return begin


def test_scripts_are_told_where_brokers_and_api_are(start, directory: Path) -> None:
    variables = "$KAFKA_BOOTSTRAP_SERVERS $KMINI_HTTP_URL $KMINI_HTTP_TOKEN"
    (directory / "1.sh").write_text(f'echo "{variables}" > {directory.parent}/told')
    environ = {**os.environ, "KMINI_HTTP_TOKEN": "secret"}
    process = start("serve", "--port", 0, "--http", 0, "--brokers", 2, "--init-dir", directory, env=environ)
    addresses = ",".join(process.stdout.readline().strip() for _ in range(2))
    link = process.stdout.readline().strip()
    told = directory.parent / "told"
    until(lambda: told.exists() and told.read_text(), "the script is not run")
    assert told.read_text() == f"{addresses} {link.strip('/')} secret\n"


def test_it_is_ready_once_all_is_done_and_a_reset_creates_the_topics_of_files_again(serve, directory: Path) -> None:
    (directory / "1.topics").write_text("orders:3:1")
    (directory / "2.sh").write_text(f"until test -e {directory.parent}/go; do sleep 0.01; done")
    _, link = serve("--init-dir", directory)
    until(lambda: "2.sh is not done yet" in str(health(link)), "the script does not begin")
    assert health(link)[0] == 503
    (directory.parent / "go").touch()
    until(lambda: health(link) == (200, {"is_ready": True, "missing": []}), "it is not ready")
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{link}api/v1/reset", b"{}", headers), timeout=30).close()
    with urllib.request.urlopen(f"{link}api/v1/topics", timeout=30) as answer:
        assert json.load(answer) == ["orders"]


def test_the_end_does_not_wait_for_a_script(serve: Begin, stop, directory: Path) -> None:
    (directory / "1.sh").write_text(f"echo $$ > {directory.parent}/pid; exec sleep 600")
    process, _ = serve("--init-dir", directory)
    pid = directory.parent / "pid"
    until(lambda: pid.exists() and pid.read_text(), "the script does not begin")
    assert stop(process)[0] == 0
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_the_lines_that_wrappers_wait_for_come_when_all_is_done(start, stop, directory: Path) -> None:
    (directory / "1.sh").write_text("exit 1")
    environ = {
        **os.environ,
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "KMINI_HTTP": "0",
        "KMINI_HTTP_HOST": "127.0.0.1",
        "KMINI_INIT_DIR": str(directory),
    }
    process = start("serve", "--env", env=environ)
    process.stdout.readline()
    link = process.stdout.readline().strip()
    until(lambda: "1.sh: ended with exit code 1" in str(health(link)), "the script does not fail")
    code, stderr = stop(process)
    assert (code, "Kafka Server started" in stderr) == (0, False)
    assert "ERROR kmini.init: init directory: 1.sh: ended with exit code 1; the log has its output" in stderr
    (directory / "1.sh").write_text("exit 0")
    process = start("serve", "--env", env=environ)
    lines = [process.stdout.readline() for _ in range(3)]
    assert lines[1].startswith("http://")
    assert lines[2].startswith("ready: [KafkaServer id=1] started, Kafka Server started, ")


def test_kmini_health_says_what_the_init_directory_lacks(start, run, directory: Path) -> None:
    (directory / "1.topics").write_text("orders")
    process = start("serve", "--port", 0, "--http", 0, "--init-dir", directory)
    address, link = process.stdout.readline().strip(), process.stdout.readline().strip()
    until(lambda: "was expected" in str(health(link)), "the file does not fail")
    said = {"KAFKA_LISTENERS": f"PLAINTEXT://{address}", "KMINI_HTTP": link.rpartition(":")[2].strip("/")}
    result = run("health", "--env", **said, KMINI_HTTP_HOST="127.0.0.1")
    assert result.exit_code == 1
    assert "init directory: 1.topics, line 1: orders: name:partitions:replicas or " in result.stderr


def test_a_directory_that_is_none_is_wrong_usage(run, tmp_path: Path) -> None:
    result = run("serve", "--port", 0, "--http", 0, "--init-dir", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "nowhere: No such file or directory; a directory was expected" in result.stderr
    (tmp_path / "file").touch()
    with pytest.raises(click.UsageError, match="Not a directory; a directory was expected"):
        files_in(str(tmp_path / "file"))


def test_files_need_the_control_api_and_an_empty_directory_does_not(run, start, directory: Path) -> None:
    process = start("serve", "--port", 0, "--init-dir", directory)
    assert process.stdout.readline().startswith("127.0.0.1:")
    (directory / "1.topics").write_text("orders:1:1")
    result = run("serve", "--port", 0, "--init-dir", directory)
    assert result.exit_code == 2
    assert "add --http PORT, or set KMINI_HTTP" in result.stderr
