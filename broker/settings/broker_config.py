"""The settings of a broker: one table, Kafka's names and defaults, from which everything about settings is read.

`differs=` says why a line is not Kafka's, `no_effect=` why a value that is accepted changes nothing. Keys that begin
with `kmini.` are our own. The table goes on in `group_settings.py`, with the newer group protocols. The settings that
give topics their defaults (`log.retention.ms`, `message.max.bytes`, ...) are not repeated here: they are the `broker=`
column of the table of topic settings in `storage/log_config.py`. Keys of Kafka's without meaning here stand in
`ignored_keys.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ...protocol.errors import AnswerError
from ...storage.config_key import (
    ANY,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_INT,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    ConfigKey,
    Rule,
    at_least,
    between,
    closest,
    exactly,
    key,
    one_of,
    shorten,
)
from ...storage.log_config import LogConfig
from ..network.listeners import (
    ADDRESSES,
    ENDPOINTS,
    HOST_LIMITS,
    NOT_EMPTY,
    PROTOCOL_MAP,
    REACHABLE,
    Endpoint,
    check_listeners,
)
from ..security.security_settings import changeable_key, check_security, is_listener_setting
from .group_settings import BrokerGroupSettings
from .ignored_keys import is_ignored
from .replica_selectors import LEADER_ONLY, RACK_AWARE

log = logging.getLogger("kmini.config")

ONE_FETCHER = "one connection to each leader is enough in one process"
NO_PURGATORY_LIST = "what has completed leaves the purgatory at once"
ONE_LOOP = "one event loop does the work of these threads"

LOCAL = "a broker without authentication is reachable from outside only when asked to be"
EMPTY_ITEMS = "Kafka refuses empty items since KIP-1161, and Testcontainers for .NET ends the list with a comma"
SELF_TUNING = "Kafka asks for 102400; the system's own tuning is faster between programs of one machine"
SMALL = "50 partitions cost start-up time and files, and bring nothing to one process"
CAPPED = "capped at the number of brokers, so that one broker needs no settings"


class ConfigError(AnswerError):
    """A broker cannot start with these settings. The message names key, value and rule, in one sentence."""


# fmt: off
class BrokerConfig(BrokerGroupSettings):
    """The settings of a broker. `BrokerConfig()` has the defaults; `parse` reads a server.properties."""

    node_id: int = key(INT, 1, at_least(0),
        "This broker's number; its logs are in the folder broker-<number> of the data directory.",
        differs="Kafka has no default", section="This broker")
    log_dirs: tuple[str, ...] = key(LIST, (), Rule("must name one directory", lambda value: len(value) <= 1),
        "The data directory. Without one, a temporary directory that is removed at the end.",
        differs="Kafka takes several, and /tmp/kafka-logs; a broker for tests should leave nothing behind")
    broker_rack: str | None = key(STRING, None, ANY,
        "The rack clients are told this broker is in.")

    listeners: tuple[Endpoint, ...] = key(ENDPOINTS, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),), NOT_EMPTY,
        "Where to listen: NAME://host:port, comma-separated. No host is every address, port 0 any free port.",
        differs=f"Kafka listens on every address, and can change them while it runs; {LOCAL}; {EMPTY_ITEMS}",
        section="Listeners and connections")
    advertised_listeners: dict[str, tuple[str, int]] = key(ADDRESSES, {}, REACHABLE,
        "What clients are told, by listener name. Without it: the host and port that the client itself used.",
        differs=f"Kafka tells every client the address it listens on, which containers cannot reach; {EMPTY_ITEMS}")
    kmini_mapped_listeners: dict[str, tuple[str, int]] = key(ADDRESSES, {}, REACHABLE,
        "In a container, what clients are told that come through a published port, by listener name, where "
        "advertised.listeners says nothing. kmini serve --env fills in localhost and the listener's port.")
    listener_security_protocol_map: dict[str, str] = key(PROTOCOL_MAP,
        {"SASL_SSL": "SASL_SSL", "PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT"}, ANY,
        "Which security protocol a listener name stands for.",
        differs="Kafka can change it while it runs")
    controller_listener_names: tuple[str, ...] = key(LIST, (), ANY,
        "Listeners of these names are left out: there is no controller to reach over the network.")
    socket_request_max_bytes: int = key(INT, 104_857_600, at_least(1),
        "The largest request; a connection that announces a larger one is closed.")
    socket_listen_backlog_size: int = key(INT, 50, at_least(1),
        "How many connections may wait to be accepted.")
    socket_send_buffer_bytes: int = key(INT, -1, at_least(-1),
        "The operating system's send buffer of a connection; -1 leaves it to the system.",
        differs=SELF_TUNING)
    socket_receive_buffer_bytes: int = key(INT, -1, at_least(-1),
        "The operating system's receive buffer of a connection; -1 leaves it to the system.",
        differs=SELF_TUNING)
    max_connections: int = key(INT, MAX_INT, at_least(0),
        "How many connections the broker holds; further ones are closed at once. With listener.name.<listener>. before "
        "it, those of that listener (KIP-402).",
        dynamic=CLUSTER_WIDE, differs="Kafka accepts no further connection until another one ends")
    max_connections_per_ip: int = key(INT, MAX_INT, at_least(0),
        "How many connections one address may hold.",
        dynamic=CLUSTER_WIDE)
    max_connections_per_ip_overrides: dict[str, int] = key(HOST_LIMITS, {}, ANY,
        "Other limits than that for single addresses: address:limit, comma-separated. Names are not looked up.",
        dynamic=CLUSTER_WIDE)
    max_connection_creation_rate: int = key(INT, MAX_INT, at_least(0),
        "How many connections a second are served, over the windows of quotas; further ones wait (KIP-612). With "
        "listener.name.<listener>. before it, those of that listener.",
        dynamic=CLUSTER_WIDE, differs="Kafka does not accept those that wait, and exempts the listener of the brokers")
    quota_window_num: int = key(INT, 11, at_least(1),
        "The samples over which quotas of clients are measured.")
    quota_window_size_seconds: int = key(INT, 1, at_least(1),
        "How long each of them is.")
    controller_quota_window_num: int = key(INT, 11, at_least(1),
        "The samples over which controller_mutation_rate is measured: so much may be used at once.")
    controller_quota_window_size_seconds: int = key(INT, 1, at_least(1),
        "How long each of them is.")
    num_network_threads: int = key(INT, 3, at_least(1),
        "Threads that read requests and write answers.",
        dynamic=CLUSTER_WIDE, no_effect=ONE_LOOP)
    queued_max_requests: int = key(INT, 500, at_least(1),
        "How many requests may wait for a thread.",
        no_effect="a connection is not read from while a request of it is worked on, so none queue")
    background_threads: int = key(INT, 10, at_least(1),
        "Threads for periodic work.",
        dynamic=CLUSTER_WIDE, no_effect=ONE_LOOP)
    connections_max_idle_ms: int = key(LONG, 600_000, ANY,
        "A connection that is silent for so long is closed; a negative number keeps it.")
    num_io_threads: int = key(INT, 8, at_least(1),
        "Threads for work that must not hold the event loop: decompression, forcing to disk, deleting.",
        dynamic=CLUSTER_WIDE, no_effect="they come as they are needed, a few for each processor")
    request_timeout_ms: int = key(INT, 30_000, at_least(0),
        "How long brokers wait for each other's answers.")
    kmini_as_version: str | None = key(STRING, None, one_of("2.8", "3.9", "4.0", "4.3"),
        "The release of Apache Kafka whose requests and versions are served, and no others. Without it: the floors of"
        " 3.9 and the tops of 4.3.")
    kmini_max_decompressed_message_bytes: int = key(INT, 67_108_864, at_least(1024),
        "The most that one record may be after decompression; a batch with more is refused with INVALID_RECORD.")

    inter_broker_listener_name: str | None = key(STRING, None, ANY,
        "The listener through which brokers reach each other; without it, the first of security.inter.broker.protocol.",
        section="Security")
    security_inter_broker_protocol: str = key(STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "The security protocol of brokers among each other, where inter.broker.listener.name says nothing.")
    sasl_mechanism_inter_broker_protocol: str = key(STRING, "PLAIN", ANY,
        "The SASL mechanism of brokers among each other.",
        differs="Kafka's GSSAPI is not offered, and Kafka can change it while it runs")
    sasl_enabled_mechanisms: tuple[str, ...] = key(LIST, ("SCRAM-SHA-256", "SCRAM-SHA-512"), ANY,
        "How clients may authenticate at listeners of SASL_PLAINTEXT: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. With "
        "listener.name.<listener>. before it, at that listener.",
        differs="Kafka's GSSAPI is not offered, and Kafka can change it while it runs")
    sasl_jaas_config: str | None = key(PASSWORD, None, ANY,
        "The users of PLAIN, as options user_<name>=\"<password>\" of Kafka's PlainLoginModule. With "
        "listener.name.<listener>.plain. before it, those of that listener.",
        differs="Kafka takes it with the listener and the mechanism before it only, and can change it while it runs; "
        "a password would be stored then")
    sasl_server_max_receive_size: int = key(INT, 524_288, at_least(0),
        "The largest request before authentication.")
    sasl_oauthbearer_jwks_endpoint_url: str | None = key(STRING, None, ANY,
        "Where the keys are that tokens of OAUTHBEARER are signed with: a file://, http:// or https:// URL (KIP-768). "
        "Without it the listener takes unsecured tokens.",
        differs="kmini does not ask whether a system property of Java allows the URL")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = key(LONG, 3_600_000, at_least(1),
        "How old those keys may be.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] = key(LIST, (), ANY,
        "One of these has to be in the claim `aud` of a signed token.")
    sasl_oauthbearer_expected_issuer: str | None = key(STRING, None, ANY,
        "This has to be the claim `iss` of a signed token.")
    sasl_oauthbearer_clock_skew_seconds: int = key(INT, 30, at_least(0),
        "By which the issuer's clock may differ.")
    sasl_oauthbearer_scope_claim_name: str = key(STRING, "scope", ANY,
        "The claim that has the scope.")
    sasl_oauthbearer_sub_claim_name: str = key(STRING, "sub", ANY,
        "The claim that names the user.")
    connections_max_reauth_ms: int = key(LONG, 0, at_least(0),
        "How long an authentication holds until the client has to repeat it; 0 for ever.")
    connection_failed_authentication_delay_ms: int = key(INT, 100, at_least(0),
        "How long the answer to a failed authentication is held back.")
    delegation_token_secret_key: str | None = key(PASSWORD, None, ANY,
        "The key that secrets of delegation tokens are made with, the same at all brokers. Without it there are no "
        "delegation tokens.")
    delegation_token_max_lifetime_ms: int = key(LONG, 604_800_000, at_least(1),
        "How old a delegation token may become, however often it is renewed.")
    delegation_token_expiry_time_ms: int = key(LONG, 86_400_000, at_least(1),
        "How long a delegation token is valid until it has to be renewed.")
    delegation_token_expiry_check_interval_ms: int = key(LONG, 3_600_000, at_least(1),
        "How often the broker looks for expired delegation tokens, to remove them.")
    kmini_authentication_timeout_ms: int = key(INT, 30_000, at_least(1),
        "How long a connection may take to authenticate before it is closed.")
    ssl_keystore_type: str = key(STRING, "JKS", ANY,
        "The format of the key store: PEM or PKCS12. With listener.name.<listener>. before it, as all settings of TLS, "
        "that of this listener.",
        differs="Java's own format has to be converted, and a file that changes is read again without being told")
    ssl_keystore_location: str | None = key(STRING, None, ANY,
        "The file with the private key and the certificates of the broker.")
    ssl_keystore_password: str | None = key(PASSWORD, None, ANY,
        "The password of that file, of PKCS12.")
    ssl_key_password: str | None = key(PASSWORD, None, ANY,
        "The password of the private key in PEM.")
    ssl_keystore_key: str | None = key(PASSWORD, None, ANY,
        "The private key itself, as PEM, in place of a file.")
    ssl_keystore_certificate_chain: str | None = key(PASSWORD, None, ANY,
        "The certificates that belong to that key, as PEM.")
    ssl_truststore_type: str = key(STRING, "JKS", ANY,
        "The format of the trust store: PEM or PKCS12.",
        differs="Java's own format has to be converted")
    ssl_truststore_location: str | None = key(STRING, None, ANY,
        "The file with the certificates that clients' certificates are checked against.")
    ssl_truststore_password: str | None = key(PASSWORD, None, ANY,
        "The password of that file, of PKCS12.")
    ssl_truststore_certificates: str | None = key(PASSWORD, None, ANY,
        "These certificates themselves, as PEM, in place of a file.")
    ssl_client_auth: str = key(STRING, "none", one_of("none", "requested", "required"),
        "Whether clients have to show a certificate.")
    ssl_enabled_protocols: tuple[str, ...] = key(LIST, ("TLSv1.2", "TLSv1.3"), ANY,
        "The versions of TLS.")
    ssl_cipher_suites: tuple[str, ...] = key(LIST, (), ANY,
        "The cipher suites of TLS 1.2, by Java's names; OpenSSL's choice without it.",
        differs="those of TLS 1.3 cannot be chosen")
    ssl_principal_mapping_rules: str = key(STRING, "DEFAULT", ANY,
        "From the distinguished name of a client's certificate to the name of its user (KIP-371).")
    authorizer_class_name: str = key(STRING, "", ANY,
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer, Kafka's name, turns access rules on: kmini's own "
        "authorizer decides alike.")
    super_users: str = key(STRING, "", ANY,
        "The principals that may do everything, separated by semicolons: User:alice;User:bob.")
    allow_everyone_if_no_acl_found: bool = key(BOOLEAN, False, ANY,
        "Whether every client may use a resource that no rule names.")

    auto_create_topics_enable: bool = key(BOOLEAN, True, ANY,
        "Whether a topic that a client asks for by name comes into being, if the client allows it.",
        section="Topics and partitions")
    delete_topic_enable: bool = key(BOOLEAN, True, ANY,
        "Whether topics can be deleted.")
    num_partitions: int = key(INT, 1, at_least(1),
        "Partitions of a topic that is created without saying how many.")
    default_replication_factor: int = key(INT, 1, at_least(1),
        "Replicas of a topic that is created without saying how many.")
    auto_leader_rebalance_enable: bool = key(BOOLEAN, True, ANY,
        "Whether leadership returns to each partition's first replica by itself.")
    leader_imbalance_check_interval_seconds: int = key(LONG, 300, at_least(1),
        "How often that is looked at.")
    max_request_partition_size_limit: int = key(INT, 2000, at_least(1),
        "How many partitions one DescribeTopicPartitions answer holds.")

    num_recovery_threads_per_data_dir: int = key(INT, 2, at_least(1),
        "Threads that recover logs at start. A clean stop flushes many logs in 16 threads, whatever this says.",
        dynamic=CLUSTER_WIDE, section="Logs")
    log_retention_check_interval_ms: int = key(LONG, 300_000, at_least(1),
        "How often segments are looked at for deletion by age and size.")
    log_initial_task_delay_ms: int = key(LONG, 30_000, at_least(0),
        "When the periodic work on logs begins after start.")
    log_flush_offset_checkpoint_interval_ms: int = key(INT, 60_000, at_least(0),
        "How often the recovery points are written to their checkpoint.")
    log_flush_start_offset_checkpoint_interval_ms: int = key(INT, 60_000, at_least(0),
        "How often the log start offsets are written to their checkpoint; DeleteRecords writes them before it answers.")
    replica_high_watermark_checkpoint_interval_ms: int = key(LONG, 5_000, at_least(1),
        "How often the high watermarks are written to their checkpoint.")
    producer_id_expiration_ms: int = key(INT, 86_400_000, at_least(1),
        "A partition forgets a producer whose last record is older than this.",
        dynamic=CLUSTER_WIDE)
    producer_id_expiration_check_interval_ms: int = key(INT, 600_000, at_least(1),
        "How often producers are looked at for that.")

    log_cleaner_enable: bool = key(BOOLEAN, True, ANY,
        "Whether compacted topics are compacted.",
        section="Log cleaner")
    log_cleaner_threads: int = key(INT, 1, at_least(0),
        "Threads that compact.",
        dynamic=CLUSTER_WIDE)
    log_cleaner_dedupe_buffer_size: int = key(LONG, 134_217_728, at_least(1),
        "Memory for the keys of one pass, over all threads.",
        dynamic=CLUSTER_WIDE)
    log_cleaner_io_buffer_load_factor: float = key(DOUBLE, 0.9, between(0, 1),
        "How full that memory may get; fuller means more keys a pass and more collisions.",
        dynamic=CLUSTER_WIDE)
    log_cleaner_io_buffer_size: int = key(INT, 524_288, at_least(0),
        "Memory for reading and writing, over all threads.",
        dynamic=CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second: float = key(DOUBLE, 1.7976931348623157e308, at_least(0),
        "How fast all threads together may read and write.",
        dynamic=CLUSTER_WIDE)
    log_cleaner_backoff_ms: int = key(LONG, 15_000, at_least(0),
        "How long a thread sleeps when no log needs compaction.",
        dynamic=CLUSTER_WIDE)

    fetch_max_bytes: int = key(INT, 57_671_680, at_least(1024),
        "The most that one fetch is answered with, whatever it asks for; the first batch always goes out whole.",
        section="Fetching and replication")
    max_incremental_fetch_session_cache_slots: int = key(INT, 1000, at_least(0),
        "How many fetch sessions (KIP-227) are kept.")
    fetch_purgatory_purge_interval_requests: int = key(INT, 1000, ANY,
        "How many completed fetches may stay in the purgatory.",
        no_effect=NO_PURGATORY_LIST)
    producer_purgatory_purge_interval_requests: int = key(INT, 1000, ANY,
        "How many completed produce requests may stay in the purgatory.",
        no_effect=NO_PURGATORY_LIST)
    delete_records_purgatory_purge_interval_requests: int = key(INT, 1, ANY,
        "How many completed DeleteRecords requests may stay in the purgatory.",
        no_effect=NO_PURGATORY_LIST)
    num_replica_fetchers: int = key(INT, 1, at_least(1),
        "Connections to each leader that followers fetch over.",
        dynamic=CLUSTER_WIDE, no_effect=ONE_FETCHER)
    replica_fetch_min_bytes: int = key(INT, 1, at_least(0),
        "How much a follower waits for.")
    replica_fetch_max_bytes: int = key(INT, 1_048_576, at_least(0),
        "How much a follower fetches of one partition at a time.")
    replica_fetch_response_max_bytes: int = key(INT, 10_485_760, at_least(0),
        "How much a follower fetches at a time.")
    replica_fetch_wait_max_ms: int = key(INT, 500, at_least(0),
        "How long a follower's fetch waits at most.")
    replica_fetch_backoff_ms: int = key(INT, 1000, at_least(0),
        "How long a follower pauses a partition after an error.")
    broker_session_timeout_ms: int = key(INT, 9_000, ANY,
        "A broker that the others have not heard of for so long counts as dead.")
    replica_selector_class: str | None = key(STRING, None, one_of(RACK_AWARE, LEADER_ONLY),
        "Kafka's name of RackAwareReplicaSelector lets consumers with client.rack read from a replica in their rack.")
    replica_lag_time_max_ms: int = key(LONG, 30_000, at_least(1),
        "A follower that has not caught up for so long leaves the ISR.")

    group_initial_rebalance_delay_ms: int = key(INT, 0, at_least(0),
        "How long an empty group waits for more members after the first.",
        differs="Kafka waits 3 s, which every test with a consumer would pay", section="Consumer groups")
    group_min_session_timeout_ms: int = key(INT, 6_000, at_least(0),
        "The shortest session time-out a member may ask for.")
    group_max_session_timeout_ms: int = key(INT, 1_800_000, at_least(0),
        "The longest session time-out a member may ask for.")
    group_max_size: int = key(INT, MAX_INT, at_least(1),
        "How many members a group may have.")
    kmini_group_expel_on_disconnect: bool = key(BOOLEAN, False, ANY,
        "Whether a member leaves its group as soon as its connection ends. In Kafka, and by default, it stays until "
        "its session ends. Static members stay either way.")
    offset_metadata_max_bytes: int = key(INT, 4096, at_least(0),
        "The longest text that may be stored with an offset.")
    offsets_retention_minutes: int = key(INT, 10_080, at_least(1),
        "How long the offsets of a group without members are kept.")
    offsets_retention_check_interval_ms: int = key(LONG, 600_000, at_least(1),
        "How often offsets are looked at for that.")
    offsets_commit_timeout_ms: int = key(INT, 5_000, at_least(1),
        "How long a commit waits for the replicas.")
    offsets_topic_num_partitions: int = key(INT, 8, at_least(1),
        "Partitions of __consumer_offsets.",
        differs=SMALL)
    offsets_topic_replication_factor: int = key(SHORT, 3, at_least(1),
        "Replicas of __consumer_offsets.",
        differs=CAPPED)
    offsets_topic_segment_bytes: int = key(INT, 104_857_600, at_least(14),
        "Segment size of __consumer_offsets.")

    transactional_id_expiration_ms: int = key(INT, 604_800_000, at_least(1),
        "How long an unused transactional id is remembered.",
        section="Transactions")
    transaction_max_timeout_ms: int = key(INT, 900_000, at_least(1),
        "The longest transaction time-out a producer may ask for.")
    transaction_partition_verification_enable: bool = key(BOOLEAN, True, ANY,
        "Whether a transactional append asks the coordinator first (KIP-890).",
        dynamic=CLUSTER_WIDE)
    transaction_two_phase_commit_enable: bool = key(BOOLEAN, False, exactly(False),
        "Two-phase commit (KIP-939), which is not offered here.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(INT, 10_000, at_least(1),
        "How often open transactions are looked at for their time-out.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(INT, 3_600_000, at_least(1),
        "How often transactional ids are looked at for their expiry.")
    add_partitions_to_txn_retry_backoff_ms: int = key(INT, 20, at_least(1),
        "How long the broker waits before it asks a busy transaction coordinator again.")
    add_partitions_to_txn_retry_backoff_max_ms: int = key(INT, 100, at_least(0),
        "How long it does so before the producer has to.")
    transaction_state_log_num_partitions: int = key(INT, 8, at_least(1),
        "Partitions of __transaction_state.",
        differs=SMALL)
    transaction_state_log_replication_factor: int = key(SHORT, 3, at_least(1),
        "Replicas of __transaction_state.",
        differs=CAPPED)
    transaction_state_log_min_isr: int = key(INT, 2, at_least(1),
        "Replicas of __transaction_state that must be in sync.",
        differs=CAPPED)
    transaction_state_log_segment_bytes: int = key(INT, 104_857_600, at_least(14),
        "Segment size of __transaction_state.")

    share_coordinator_state_topic_num_partitions: int = key(INT, 8, at_least(1),
        "Partitions of __share_group_state.",
        differs=SMALL, section="Share coordinator")
    share_coordinator_state_topic_replication_factor: int = key(SHORT, 3, at_least(1),
        "Replicas of __share_group_state.",
        differs=CAPPED)
    share_coordinator_state_topic_min_isr: int = key(SHORT, 2, at_least(1),
        "Replicas of __share_group_state that must be in sync.",
        differs=CAPPED)
    share_coordinator_state_topic_segment_bytes: int = key(INT, 104_857_600, at_least(1),
        "Segment size of __share_group_state.")
    share_coordinator_state_topic_prune_interval_ms: int = key(INT, 300_000, at_least(1),
        "How often the coordinator looks for records in __share_group_state that no state needs any more.",
        internal=True)
    share_coordinator_write_timeout_ms: int = key(INT, 5_000, at_least(1),
        "How long a change of the state of a share partition may take to be replicated.")
    share_coordinator_snapshot_update_records_per_snapshot: int = key(INT, 500, between(0, 500),
        "How many changes of the state of a share partition are stored between two snapshots of it.")
    share_coordinator_cold_partition_snapshot_interval_ms: int = key(INT, 300_000, at_least(1),
        "How long the state of a share partition may be unchanged until a snapshot of it is stored again.",
        internal=True)
    # fmt: on

    log_config: LogConfig
    """The settings of topics that have none of their own."""
    given: Mapping[str, str]
    """The keys that `parse` was given and knows, as text."""
    for_all: Mapping[str, str]
    """Settings made for all brokers while they ran (KIP-226): stronger than `given`. Keys may have any name."""
    for_this: Mapping[str, str]
    """Settings made for this broker alone while it ran: the strongest."""
    static: BrokerConfig | None
    """The settings at the start, if some were made while the broker ran."""
    per_listener: Mapping[str, str]
    """Keys with a listener's prefix that `parse` was given, as text; passwords are among them."""

    def __init__(
        self,
        *,
        log_config: LogConfig | None = None,
        given: Mapping[str, str] | None = None,
        for_all: Mapping[str, str] | None = None,
        for_this: Mapping[str, str] | None = None,
        static: BrokerConfig | None = None,
        per_listener: Mapping[str, str] | None = None,
        **values: Any,
    ) -> None:
        super().__init__(**values)
        mine = vars(self)
        mine.update(log_config=log_config or LogConfig(), given=given or {}, static=static)
        mine.update(per_listener=per_listener or {})
        mine.update(for_all=for_all or {}, for_this=for_this or {})

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """The settings in `properties`, by Kafka's key names; the rest are the defaults.

        Raises ConfigError for a value that breaks its rule, and for a key that neither kmini nor Kafka knows. Keys of
        Kafka's without meaning here are accepted, and named in one line of the log.
        """
        given, per_listener, without_effect = {}, {}, []
        for name, text in properties.items():
            line = BROKER_KEYS.get(name)
            if is_listener_setting(name):
                per_listener[name] = text.strip()
                continue
            if line is not None or name in ALIASES:
                given[name] = text.strip()
            elif not is_ignored(name):
                shown = "[hidden]" if "jaas" in name or "password" in name else shorten(text)
                raise ConfigError(f"{shorten(name)}={shown}: {_what_is_wrong_with(name)}")
            if line.no_effect if line else name not in ALIASES:
                without_effect.append(name)
        for alias, name in ALIASES.items():
            text = given.pop(alias, "-1")
            if text != "-1":  # broker.id=-1 asks Kafka to make up a number
                given.setdefault(name, text)
        if without_effect:
            log.info("settings of Apache Kafka that have no effect here: %s", ", ".join(without_effect))
        try:
            values = {line.attribute: line.parse(given[line.name]) for line in cls.KEYS.values() if line.name in given}
            config = cls(log_config=_log_config_of(given), given=given, per_listener=per_listener, **values)
            return config._checked()
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def with_dynamic(self, for_all: Mapping[str, str], for_this: Mapping[str, str]) -> BrokerConfig:
        """The settings that the broker was started with, under those that were made since.

        Keys without meaning here are kept, to be told. Raises ValueError naming key, value and rule.
        """
        static = self.static or self
        values, topic_defaults, of_listeners = {}, {}, {}
        for name, text in (*for_all.items(), *for_this.items()):
            line = BROKER_KEYS.get(name)
            if changeable_key(name):
                of_listeners[name] = text
            if isinstance(line, TopicDefault):
                value = line.in_topic_units(line.parse(text, may_be_unset=False))
                topic_defaults[line.topic_key.attribute] = value
            elif line is not None:
                values[line.attribute] = line.parse(text, may_be_unset=False)
        log_config = static.log_config.replace(**topic_defaults) if topic_defaults else static.log_config
        config = static.replace(log_config=log_config, for_all=for_all, for_this=for_this, static=static, **values)
        config._check_rules_between_settings()
        if of_listeners:
            config = config.replace(per_listener={**static.per_listener, **of_listeners})
            check_security(config)
        return config

    def _check_rules_between_settings(self) -> None:
        """Raise ValueError for the first broken rule that concerns several settings and not the listeners."""
        low, high = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if low > high:
            raise ValueError(f"group.min.session.timeout.ms={low}: must be at most group.max.session.timeout.ms={high}")
        if broken := self.broken_group_rule() or self.log_config.broken_rule("log.cleaner."):
            raise ValueError(broken)

    def _checked(self) -> BrokerConfig:
        """These settings without the listeners that are a controller's. ValueError for a broken rule between keys."""
        listeners = tuple(at for at in self.listeners if at.name not in self.controller_listener_names)
        if not listeners:
            raise ValueError(f"listeners={self.text_of('listeners')}: all of them are in controller.listener.names")
        addresses = self.advertised_listeners.items()
        advertised = {name: at for name, at in addresses if name not in self.controller_listener_names}
        check_listeners(listeners, advertised, self.listener_security_protocol_map)
        if unknown := self.kmini_mapped_listeners.keys() - {at.name for at in listeners}:
            raise ValueError(f"kmini.mapped.listeners={min(unknown)}://…: there is no listener of that name")
        self._check_rules_between_settings()
        config = self.replace(listeners=listeners, advertised_listeners=advertised)
        check_security(config)
        return config

    @property
    def data_dir(self) -> str | None:
        """The data directory; None asks for a temporary one."""
        return self.log_dirs[0] if self.log_dirs else None

    def text_of(self, name: str) -> str | None:
        """The value in force of any broker key, as text; None where it has none."""
        line = BROKER_KEYS[name]
        if isinstance(line, TopicDefault):
            layers = (self.for_this, self.for_all, self.given)
            text = next((layer[name] for layer in layers if name in layer), None)
            return line.text(line.default if text is None else line.parse(text))
        return line.text(self.value_of(line))


class TopicDefault(ConfigKey):
    """A broker key that gives topics the default of `topic_key`. Its values count in `unit`: 1, or that many ms."""

    __slots__ = ("topic_key", "unit")

    def __init__(self, name: str, topic_key: ConfigKey) -> None:
        self.topic_key = topic_key
        self.unit = {"minutes": 60_000, "hours": 3_600_000}.get(name.rpartition(".")[2], 1)
        is_strongest, is_weakest = name == topic_key.broker_keys[0], name == topic_key.broker_keys[-1]
        super().__init__(
            topic_key.type if self.unit == 1 else INT,
            # as in Kafka, the weakest key holds the default: log.retention.hours is 168, log.retention.ms unset
            self._in_units(topic_key.default) if is_weakest else None,
            Rule(topic_key.rule.text, lambda value: topic_key.rule.allows(self.in_topic_units(value))),
            topic_key.doc,
            name=name,
            dynamic=CLUSTER_WIDE if is_strongest else READ_ONLY,
            differs=topic_key.differs,
            no_effect=topic_key.no_effect,
        )

    def _in_units(self, value: Any) -> Any:
        return value if self.unit == 1 else value // self.unit

    def in_topic_units(self, value: Any) -> Any:
        """A value of this key as one of the topic key's; negative numbers have a meaning of their own, not a unit."""
        return value if self.unit == 1 or value < 0 else value * self.unit


def _topic_defaults() -> Iterator[TopicDefault]:
    for topic_key in LogConfig.KEYS.values():
        for name in topic_key.broker_keys:
            yield TopicDefault(name, topic_key)


BROKER_KEYS: dict[str, ConfigKey] = {**BrokerConfig.KEYS, **{line.name: line for line in _topic_defaults()}}
"""Every key that a server.properties may have and that has a meaning here."""

ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names of Kafka's, weaker than the key they stand for."""


def _log_config_of(given: Mapping[str, str]) -> LogConfig:
    values = {}
    for name in given:
        line = BROKER_KEYS[name]
        if isinstance(line, TopicDefault):
            stronger = line.topic_key.broker_keys[: line.topic_key.broker_keys.index(name)]
            value = line.parse(given[name])
            if value is not None and not any(given.get(other) for other in stronger):
                values[line.topic_key.attribute] = line.in_topic_units(value)
    return LogConfig(**values)


def _what_is_wrong_with(name: str) -> str:
    topic_key = LogConfig.KEYS.get(name)
    if topic_key is not None and topic_key.broker_keys:
        return f"this is a topic's setting; its default for all topics is {topic_key.broker_keys[0]}"
    return f"no such setting{closest(name, [*BROKER_KEYS, *ALIASES])}"
