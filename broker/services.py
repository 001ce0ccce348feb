"""The parts of a broker that handlers and connections reach.

`broker.py` builds it. Only the network, the handlers and what lies between them use it; everything below takes the
parts that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..storage.log_manager import LogManager
from .api.interception import Intercepted, Interceptor
from .api.releases import GROUP_VERSION, NEWEST, SHARE_VERSION, STREAMS_VERSION, Feature, Release
from .appending import RecordAppender
from .clock import Clock
from .controller.controller import Controller
from .controller.topology import BrokerHandle
from .coordination import Coordination
from .log_cleaner import LogCleaner
from .long_work import LongWork
from .metrics import Metrics
from .purgatory import Purgatory
from .replication.fetch_sessions import FetchSessions
from .replication.replica_manager import ReplicaManager
from .scheduler import CheckpointWriter
from .security.authorizer import Authorizer
from .settings.dynamic_config import DynamicBrokerConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .coordinators.coordinator_topic import CoordinatorTopic
    from .groups.group_coordinator import GroupCoordinator
    from .groups.transactional_offsets import TransactionalOffsets
    from .journal.request_journal import RequestJournal
    from .quotas.client_quotas import ClientQuotas
    from .security.delegation_tokens import TokenLogins
    from .settings.group_config import GroupConfigs
    from .share_fetch.share_partition_manager import SharePartitionManager
    from .share_fetch.share_sessions import ShareSessions
    from .share_state.persister import Persister
    from .share_state.share_coordinator import ShareCoordinator
    from .transactions.markers import MarkerWriter
    from .transactions.transaction_coordinator import TransactionCoordinator


class Services(Intercepted):
    """The parts of one broker. None of them is replaced while the broker runs: a reset makes new Services."""

    def __init__(
        self,
        *,
        this_broker: BrokerHandle,
        release: Release | None,
        replica_manager: ReplicaManager,
        log_start_checkpoint: CheckpointWriter,
        cleaner: LogCleaner,
        fetch_sessions: FetchSessions,
        long_work: LongWork,
        coordination: Coordination,
        authorizer: Authorizer | None,
        journal: RequestJournal | None = None,
        interceptors: list[Interceptor],
    ) -> None:
        self.this_broker = this_broker
        """The broker as the other brokers see it."""
        self.node_id = replica_manager.node_id
        """The broker's number."""
        self.config: DynamicBrokerConfig = replica_manager.config
        """The settings in force are `config.current`."""
        self.release = release
        """The release of Apache Kafka whose requests and versions are served; None serves every version."""
        self.clock: Clock = replica_manager.clock
        self.controller: Controller = replica_manager.controller
        """The cluster's metadata."""
        self.replica_manager = replica_manager
        """The partitions that this broker leads and follows."""
        self.logs: LogManager = replica_manager.logs
        """The logs of all replicas of this broker."""
        self.log_start_checkpoint = log_start_checkpoint
        """The checkpoint file of log start offsets."""
        self.cleaner = cleaner
        self.fetch_sessions = fetch_sessions
        self.purgatory: Purgatory = replica_manager.purgatory
        """The requests that wait."""
        self.long_work = long_work
        """Decompression of large batches, one after the other."""
        self.appender = RecordAppender(replica_manager, long_work)
        """Appends records of clients to partitions that this broker leads."""
        self.metrics: Metrics = replica_manager.metrics
        super().__init__(interceptors)
        self.quotas: ClientQuotas | None = None
        """Holds clients to their quotas; None where none are stored."""
        self.registry_rules: Sequence[Any] = ()
        """The fault rules about the schema registry beside this broker (`faults/registry_rules.py`), which asks for
        them with each request."""
        self.journal = journal
        """Has the last requests; None where no test asked for it."""
        self._coordination = coordination
        self.authorizer = authorizer
        """Decides what clients may do; None where every client may do everything."""

    @property
    def token_logins(self) -> TokenLogins | None:
        """How clients log in with delegation tokens; None where these are not turned on."""
        secret = self.config.current.delegation_token_secret_key
        if not secret:
            return None
        from .security.delegation_tokens import TokenLogins  # most brokers have no tokens

        return TokenLogins(self.controller.delegation_tokens, secret, self.clock)

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        return self._coordination.groups

    @property
    def transactional_offsets(self) -> TransactionalOffsets:
        """Offsets that open transactions commit."""
        return self._coordination.transactional_offsets

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        return self._coordination.transactions

    @property
    def marker_writer(self) -> MarkerWriter:
        """Ends transactions in the partitions that this broker leads."""
        return self._coordination.marker_writer

    @property
    def features(self) -> list[Feature]:
        """The cluster's features (KIP-584), each at the level that is in force."""
        return [feature._replace(level=self._level_of(feature)) for feature in (self.release or NEWEST).features]

    def feature_level(self, name: str) -> int:
        """The level in force of a feature; 0 for one that the release does not have."""
        for feature in (self.release or NEWEST).features:
            if feature.name == name:
                return self._level_of(feature)
        return 0

    def _level_of(self, feature: Feature) -> int:
        level = self.controller.feature_levels.get(feature.name, feature.level)
        return min(max(level, feature.min_level), feature.max_level)

    @property
    def offers_consumer_groups(self) -> bool:
        """Whether the consumer protocol of KIP-848 is offered: a setting and the feature `group.version` allow it."""
        is_allowed = "consumer" in self.config.current.group_coordinator_rebalance_protocols
        return is_allowed and self.feature_level(GROUP_VERSION) > 0

    @property
    def offers_streams_groups(self) -> bool:
        """Whether streams groups of KIP-1071 are offered: a setting and the feature `streams.version` allow it."""
        is_allowed = "streams" in self.config.current.group_coordinator_rebalance_protocols
        return is_allowed and self.feature_level(STREAMS_VERSION) > 0

    @property
    def offers_share_groups(self) -> bool:
        """Whether share groups of KIP-932 are offered: as in Kafka, the feature `share.version` alone decides."""
        return self.feature_level(SHARE_VERSION) > 0

    @property
    def persister(self) -> Persister:
        """How the states of share partitions are reached, whichever broker coordinates them."""
        return self._coordination.persister

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions that this broker leads."""
        return self._coordination.share_partitions

    @property
    def share_sessions(self) -> ShareSessions:
        """The share sessions of this broker."""
        return self._coordination.share_sessions

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The coordinator of the states of share partitions."""
        return self._coordination.share_coordinator

    @property
    def share_state_topic(self) -> CoordinatorTopic:
        """The topic of the states of share partitions."""
        return self._coordination.share_state_topic

    @property
    def group_configs(self) -> GroupConfigs:
        """The settings in force for each group."""
        return self._coordination.group_configs
