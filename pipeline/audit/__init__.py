"""Audits of log directories: find records that should be gone and are still there.

`audit_directory` is the entry. `segment_facts.py` is the map step, `supersession.py` the reduce step, and
`assessment.py` makes the report of both. The same functions run in a loop (`local_audit.py`) and, for directories that
are too large for one process, on Spark (`spark_audit.py`).
"""

from .audit_plan import Scope
from .local_audit import audit_directory
from .report import AuditReport, Finding, KeyReport, Kind, PartitionReport
from .topic_policy import TopicPolicy

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
