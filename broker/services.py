"""What handlers and connections reach of a broker.

`broker.py` builds it. Only the network, the handlers and what lies between them use it; everything below takes the
parts that it needs.
"""

from __future__ import annotations

from ..storage.filesystem import FileSystem
from ..storage.log_manager import LogManager
from .api.releases import NEWEST, Feature, Release
from .clock import Clock
from .controller.controller import Controller
from .controller.peers import Peers
from .groups.group_coordinator import GroupCoordinator
from .groups.transactional_offsets import TransactionalOffsets
from .log_cleaner import LogCleaner
from .long_work import LongWork
from .metrics import Metrics
from .purgatory import Purgatory
from .replication.fetch_sessions import FetchSessions
from .replication.replica_manager import ReplicaManager
from .scheduler import SharedWrite
from .security.authorizer import Authorizer
from .settings.dynamic_config import DynamicBrokerConfig
from .transactions.markers import MarkerWriter
from .transactions.transaction_coordinator import TransactionCoordinator


class Services:
    """The parts of one broker. None of them is replaced while the broker runs."""

    def __init__(
        self,
        *,
        node_id: int,
        config: DynamicBrokerConfig,
        release: Release | None,
        clock: Clock,
        filesystem: FileSystem,
        log_dir: str,
        controller: Controller,
        peers: Peers,
        logs: LogManager,
        log_start_checkpoint: SharedWrite,
        cleaner: LogCleaner,
        replica_manager: ReplicaManager,
        fetch_sessions: FetchSessions,
        purgatory: Purgatory,
        long_work: LongWork,
        metrics: Metrics,
        groups: GroupCoordinator,
        transactional_offsets: TransactionalOffsets,
        transactions: TransactionCoordinator,
        marker_writer: MarkerWriter,
        authorizer: Authorizer | None,
    ) -> None:
        self.node_id = node_id
        """This broker's number."""
        self.config = config
        """The settings in force are `config.current`."""
        self.release = release
        """The release of Apache Kafka whose requests and versions are served; None for all that there are."""
        self.clock = clock
        self.filesystem = filesystem
        self.log_dir = log_dir
        """The directory of the partitions' folders."""
        self.controller = controller
        """The cluster's metadata."""
        self.peers = peers
        """The other brokers."""
        self.logs = logs
        """The logs of all replicas of this broker."""
        self.log_start_checkpoint = log_start_checkpoint
        """The checkpoint file of log start offsets."""
        self.cleaner = cleaner
        self.replica_manager = replica_manager
        """The partitions that this broker leads and follows."""
        self.fetch_sessions = fetch_sessions
        self.purgatory = purgatory
        """Where requests wait."""
        self.long_work = long_work
        """Decompression of large batches, one after the other."""
        self.metrics = metrics
        self.groups = groups
        self.transactional_offsets = transactional_offsets
        """Offsets that open transactions commit."""
        self.transactions = transactions
        self.marker_writer = marker_writer
        """Ends transactions in the partitions that this broker leads."""
        self.authorizer = authorizer
        """Decides what clients may do; None where every client may do everything."""

    @property
    def features(self) -> list[Feature]:
        """The cluster's features (KIP-584), each at the level that is in force."""
        levels = self.controller.feature_levels
        return [
            feature._replace(
                level=min(max(levels.get(feature.name, feature.level), feature.min_level), feature.max_level)
            )
            for feature in (self.release or NEWEST).features
        ]
