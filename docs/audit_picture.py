"""The picture on docs/audit.md, drawn from a real run: `python docs/audit_picture.py` writes it.

A broker without a cleaner is given records for three days, and its partitions are compacted by hand, each until another
time. Then the directory is audited. A test compares what the file says with what a run would say now.
"""

from __future__ import annotations

from pathlib import Path

from kmini import Broker
from kmini.pipeline.audit.age_charts import draw_chart
from kmini.pipeline.audit.audit_plan import Scope
from kmini.pipeline.audit.local_audit import audit_directory
from kmini.pipeline.audit.report import AuditReport
from kmini.pipeline.audit.topic_policy import TopicPolicy
from kmini.pipeline.logs.log_dir import LogDir
from kmini.storage.log_config import LogConfig

FILE = Path(__file__).resolve().parent / "pictures" / "audit.svg"
CONFIGS = {
    "cleanup.policy": "compact",
    "max.compaction.lag.ms": str(24 * 3_600_000),
    "delete.retention.ms": str(7 * 24 * 3_600_000),
}
HOURS = 72
LAST_PASS = {0: 71, 1: 65, 2: 52, 3: 20}
"""The hour of a partition's last compaction. Before it, a compaction ran every six hours."""


def run() -> AuditReport:
    """The findings of an audit."""
    with Broker(config={"log.cleaner.enable": False}) as broker:
        broker.create_topic("profiles", config=CONFIGS, partitions=len(LAST_PASS))
        for hour in range(HOURS):
            for partition, last in LAST_PASS.items():
                for number in range(8):
                    key = b"user-%d" % ((hour * 8 + number) % (40 + 25 * partition))
                    value = None if number == 7 else bytes(100 + 10 * number)
                    broker.produce("profiles", value, key=key, partition=partition)
                if hour == last or (hour < last and hour % 6 == 5):
                    broker.topic("profiles").compact(partition)
            broker.clock.advance("1h")
        policies = {"profiles": TopicPolicy.of(LogConfig.parse(CONFIGS))}
        return audit_directory(LogDir(str(broker.data_dir)), Scope(broker.clock.now_ms()), policies)


if __name__ == "__main__":
    report = run()
    draw_chart("profiles", report.partitions, report.now_ms, str(FILE))
