"""bytewax at its defaults, with its recovery store in the folder where it runs."""

import os
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

servers = [os.environ["BOOTSTRAP_SERVERS"]]
flow = Dataflow("billing")
orders = kafka.input("orders", flow, brokers=servers, topics=["orders"])
bills = op.map("bill", orders.oks, lambda order: KafkaSinkMessage(order.key, order.value.upper()))
kafka.output("invoices", bills, brokers=servers, topic="invoices")

store = Path("store")
if not store.exists():
    store.mkdir()
    init_db_dir(store, 1)
cluster_main(flow, [], 0, recovery_config=RecoveryConfig(str(store)))
