"""The control API: what a test in Python asks of its broker, over HTTP (extra "http"), and the page.

`routes.py` has the table of all calls. `control_server.py` serves it, `connected.py` calls it: a broker that
`kmini serve --http` runs has the handles of `Broker` and of `Cluster` in another process.

A request: `cli/http_ports.py` (when it is served, at which address, with which token), `managed_brokers.py` (what it
steers), `routes.py`, `control_server.py`, `access.py`, `arguments.py`, `json_types.py`, `problems.py`. The page:
`page/main.js` (views, keys, when they ask), `api.js`, `dom.js` (text becomes text nodes), and a module for each view;
what it asks beside the test kit's own is in `overview.py` and `topic_view.py`.
"""
