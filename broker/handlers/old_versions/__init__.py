"""Versions of requests from before record batches: messages of magic 0 and 1 (Produce 0-2, Fetch 0-3), and offsets of
segments (ListOffsets 0). The handler of the API imports its module here when an old client asks."""
