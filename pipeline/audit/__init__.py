"""Audits of log directories: what should be gone, and is still there.

`audit_directory` does it: `facts.py` is the map step, `supersession.py` the reduce step, `assessment.py` what is made
of both. The same functions run in a loop here (`running.py`) and, for directories that are too large for it, on Spark
(`on_spark.py`).
"""

from .plan import Scope
from .policy import TopicPolicy
from .report import AuditReport, Finding, KeyReport, Kind, PartitionReport
from .running import audit_directory

__all__ = [
    "AuditReport",
    "Finding",
    "KeyReport",
    "Kind",
    "PartitionReport",
    "Scope",
    "TopicPolicy",
    "audit_directory",
]
