"""streamz at its defaults but for where a new group begins."""

import os
import threading

from streamz import Stream

servers = {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]}
source = Stream.from_kafka(["orders"], {**servers, "group.id": "billing", "auto.offset.reset": "earliest"})
source.map(bytes.upper).to_kafka("invoices", servers)
source.start()
threading.Event().wait()
