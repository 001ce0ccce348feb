"""The table of the control API: which verb and path stands for which method of the test kit, in one line each.

What `broker.topic("orders").compact(partition=0)` does in Python, `POST /api/v1/topics/orders/compact` does with
`{"partition": 0}`: names and arguments are the same. The server makes its paths from this table, OpenAPI its document,
and `kmini.connect` its requests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kmini.control.control_operations import ControlOperations, TopicControl
from kmini.control.fault_control import FaultControl, RuleControl
from kmini.control.next_due import NextDue
from kmini.control.overview import Overview
from kmini.control.record_pages import HostPages, TopicPages
from kmini.control.report_control import ReportControl
from kmini.control.subject_control import SubjectControl
from kmini.control.topic_view import TopicView
from kmini.testkit.clock_handle import ClockOperations
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.journal_handle import RequestOperations
from kmini.testkit.operations import Operations
from kmini.testkit.topic_handle import TopicOperations
from kmini.testkit.transaction_handle import TransactionOperations

PREFIX = "/api/v1"

BROKER = "broker"
"""The argument of a path that is the number of a broker."""

ONLY_BROKER = "only"
"""What a path may say instead of a number where there is one broker, as in `POST /brokers/only/pause`."""

_TABLES: tuple[tuple[type, str, str], ...] = (
    (
        ControlOperations,
        "the server",
        """
        GET    /                                    describe
        GET    /ready                               readiness
        GET    /clock                               clock
        POST   /start                               start
        POST   /stop                                stop
        GET    /snapshots                           snapshots
        POST   /snapshots                           snapshot
        POST   /snapshots/{snapshot}/restore        restore
        DELETE /snapshots/{snapshot}                delete_snapshot
        POST   /seed                                seed
        GET    /brokers/{broker}/configs            broker_configs
        PATCH  /brokers/{broker}/configs            alter_broker_configs
        GET    /brokers/{broker}/cleaner            cleaner
        GET    /brokers/{broker}/purgatory          purgatory
        """,
    ),
    (
        Overview,
        "what is going on",
        """
        GET    /overview                            state
        GET    /overview/findings                   findings
        GET    /overview/topics                     topics
        GET    /overview/groups                     groups
        GET    /overview/groups/{group}/positions   positions
        """,
    ),
    (
        Operations,
        "the broker, or the cluster",
        """
        GET    /topics                              topics
        POST   /topics                              create_topic
        DELETE /topics/{topic}                      delete_topic
        POST   /produce                             produce
        GET    /offsets                             offsets
        POST   /delete-records                      delete_records
        POST   /retention                           apply_retention
        POST   /compact                             compact
        POST   /advance-clock                       advance_clock
        POST   /reset                               reset
        GET    /groups                              groups
        GET    /clients                             clients
        DELETE /clients/{client_id}                 disconnect
        POST   /advertise                           advertise
        POST   /crash                               crash
        GET    /brokers                             brokers
        POST   /brokers/{broker}/stop               stop_broker
        POST   /brokers/{broker}/kill               kill
        POST   /brokers/{broker}/restart            restart
        POST   /brokers/{broker}/pause              pause
        POST   /brokers/{broker}/cut-off            cut_off
        POST   /brokers/{broker}/reconnect          reconnect
        POST   /brokers/{broker}/hold               hold
        POST   /brokers/{broker}/release            release
        POST   /brokers/{broker}/fetch-version      limit_fetch_version
        GET    /topics/{topic}/leader               leader
        POST   /topics/{topic}/leader               move_leader
        GET    /topics/{topic}/isr                  isr
        GET    /topics/{topic}/replicas             replicas
        POST   /topics/{topic}/wait-until-in-sync   wait_until_in_sync
        GET    /groups/{group}/coordinator          coordinator
        POST   /groups/{group}/coordinator          move_coordinator
        GET    /transactions/{transactional_id}/coordinator    transaction_coordinator
        POST   /transactions/{transactional_id}/coordinator    move_transaction_coordinator
        GET    /metrics                             metrics_text
        """,
    ),
    (
        TopicControl,
        "a topic",
        """
        GET    /topics/{topic}                      describe
        GET    /topics/{topic}/configs              configs
        PATCH  /topics/{topic}/configs              alter_configs
        GET    /topics/{topic}/segments             segments
        """,
    ),
    (
        TopicView,
        "a topic",
        """
        GET    /topics/{topic}/latest               latest
        GET    /topics/{topic}/tombstones           tombstones
        """,
    ),
    (
        HostPages,
        "the broker, or the cluster",
        """
        GET    /records                             records
        POST   /wait-for-records                    wait_for_records
        """,
    ),
    (
        TopicPages,
        "a topic",
        """
        GET    /topics/{topic}/records              records
        POST   /topics/{topic}/wait-for             wait_for
        """,
    ),
    (
        TopicOperations,
        "a topic",
        """
        GET    /topics/{topic}/partitions           partitions
        GET    /topics/{topic}/offsets              offsets
        POST   /topics/{topic}/records              produce
        GET    /topics/{topic}/mark                 mark
        POST   /topics/{topic}/delete-records       delete_records
        POST   /topics/{topic}/compact              compact
        POST   /topics/{topic}/roll                 roll
        POST   /topics/{topic}/retention            apply_retention
        """,
    ),
    (
        GroupOperations,
        "a group",
        """
        GET    /groups/{group}                      describe
        GET    /groups/{group}/offsets              offsets
        PATCH  /groups/{group}/offsets              commit
        DELETE /groups/{group}/offsets              lose_offsets
        GET    /groups/{group}/lag                  lag
        GET    /groups/{group}/departures           departures
        POST   /groups/{group}/wait-stable          stable
        POST   /groups/{group}/wait-caught-up       caught_up
        POST   /groups/{group}/reset-offsets        reset_offsets
        POST   /groups/{group}/rebalance            rebalance
        POST   /groups/{group}/expel                expel
        """,
    ),
    (
        TransactionOperations,
        "transactions",
        """
        GET    /transactions                        open
        POST   /transactions/wait-ended             wait_ended
        POST   /transactions/{transactional_id}/abort    abort
        """,
    ),
    (
        FaultControl,
        "fault rules",
        """
        GET    /faults                              statuses
        PUT    /faults                              replace
        POST   /faults                              load
        DELETE /faults                              clear
        GET    /faults/unhit                        unhit
        GET    /faults/held                         held
        POST   /faults/assert-all-hit               assert_all_hit
        """,
    ),
    (
        RuleControl,
        "a fault rule",
        """
        GET    /faults/{rule}                       status
        DELETE /faults/{rule}                       remove
        POST   /faults/{rule}/wait-hit              wait_hit
        POST   /faults/{rule}/wait-arrived          arrived
        POST   /faults/{rule}/release               release
        """,
    ),
    (
        ClockOperations,
        "the clock",
        """
        GET    /clock/now-ms                        now_ms
        POST   /clock/advance                       advance
        POST   /clock/stop-moving                   stop_moving
        POST   /clock/turn-back                     turn_back
        """,
    ),
    (
        NextDue,
        "the clock",
        """
        GET    /clock/due                           due
        """,
    ),
    (
        RequestOperations,
        "the journal",
        """
        GET    /requests                            all
        GET    /requests/count                      count
        POST   /requests/wait-for                   wait_for
        GET    /requests/assert-some                assert_some
        GET    /requests/assert-none                assert_none
        GET    /requests/mark                       mark
        GET    /requests/lost                       lost
        """,
    ),
    (
        SubjectControl,
        "the schema registry",
        """
        GET    /subjects                            subjects
        GET    /subjects/{subject}                  versions
        POST   /subjects/{subject}/check            check
        POST   /subjects/{subject}/versions         register
        """,
    ),
    (
        ReportControl,
        "the report",
        """
        GET    /report                              text
        POST   /report                              text_with
        """,
    ),
)


class Route(NamedTuple):
    """A verb and a path for a method."""

    table: type
    """The class of the table of operations that has the method."""
    subject: str
    """What the table is about, in words."""
    verb: str
    path: str
    """Below `PREFIX`; "{topic}" stands for an argument."""
    method: str

    @property
    def is_text(self) -> bool:
        """Whether the answer is a text, and no JSON."""
        return self.method in ("metrics_text", "text", "text_with")

    @property
    def creates(self) -> str | None:
        """The path of what the method makes, which the answer has (201); None if it makes nothing with a path."""
        return "/topics/{}" if self.method == "create_topic" else None

    def argument(self, name: str, arguments: Collection[str]) -> str:
        """What the method calls a name of the path: `delete_topic` calls a topic `name`."""
        return name if name in arguments else "name"

    def named(self, about: Mapping[str, str], arguments: Collection[str]) -> dict[str, str]:
        """What the path says, by the names that the method has for it."""
        return {self.argument(name, arguments): text for name, text in about.items()}

    @property
    def path_arguments(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)


ROUTES: tuple[Route, ...] = tuple(
    Route(table, subject, *line.split())
    for table, subject, lines in _TABLES
    for line in lines.split("\n")
    if line.strip()
)
"""All routes, those of one path together."""

ROUTE_OF: Mapping[tuple[type, str], Route] = {(route.table, route.method): route for route in ROUTES}
"""The route of a method, by its table and its name."""
