"""faust-streaming at its defaults, without its web server, which would take a fixed port."""

import os
import sys

import faust

app = faust.App("billing", broker=f"kafka://{os.environ['BOOTSTRAP_SERVERS']}")
orders = app.topic("orders", value_serializer="raw")
invoices = app.topic("invoices", value_serializer="raw")


@app.agent(orders)
async def bill(stream: "faust.Stream[bytes]") -> None:
    async for order in stream:
        await invoices.send(value=order.upper())


sys.argv[1:] = ["worker", "--without-web", "--loglevel", "info"]
app.main()
