"""What every handler shares: the table of the requests that are served, and the circumstances of a request.

Reading order: `registry.py` (`@handles`), `served_versions.py` (APIs and versions), `request_context.py`,
`error_mapping.py` (failures → error codes), `interception.py` (before and after each request); `releases.py` (APIs of a
release of Apache Kafka, for `kmini.as.version`). Journal, failure report and fault rules read `key_fields.py` (the
topics, groups and ids of a request) and `answer_errors.py` (the error codes of an answer).
"""
