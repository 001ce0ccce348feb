"""The control API: what a test in Python asks of its broker, over HTTP (extra "http").

`routes.py` has the table of all calls. `control_server.py` serves it, `connected.py` calls it: a broker that
`kmini serve --http` runs has the handles of `Broker` and of `Cluster` in another process.
"""
