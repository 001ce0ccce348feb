"""`kmini trace`: a proxy in front of any Kafka that shows requests and answers as they pass, and can break them.

Reading order: `proxy.py` (listens, one port for each broker), `proxied_connection.py` (moves the frames of a
connection), `rewriting.py` (addresses in answers), `observer.py` (what a request names and what its answer says),
`lines.py` (an exchange as text and as JSON), `trace_file.py` (saved exchanges), `statistics.py`,
`proxied_faults.py` (fault rules in front of any Kafka).
"""
