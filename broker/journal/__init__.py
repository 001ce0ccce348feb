"""The request journal: what a broker was asked, by which client, and how it answered. For tests; off by default.

- `request_journal`: what is written, while requests are served
- `registry_requests`: the entries of requests to the schema registry
- `entries`: what is read: an entry, decoded
- `entry_selection`: entries chosen by what they are about, and the nearest miss where there is none
"""
