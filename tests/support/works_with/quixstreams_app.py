"""Quix Streams, at its defaults but for where a new group begins; it counts in a store, which has a changelog topic."""

import os
from typing import Any

from quixstreams import Application, State

app = Application(os.environ["BOOTSTRAP_SERVERS"], consumer_group="billing", auto_offset_reset="earliest")


def bill(order: str, state: State) -> str:
    state.set("orders", state.get("orders", 0) + 1)
    return order.upper()


orders: Any = app.dataframe(app.topic("orders", value_deserializer="str"))
orders.apply(bill, stateful=True).to_topic(app.topic("invoices", value_serializer="str"))
app.run()
