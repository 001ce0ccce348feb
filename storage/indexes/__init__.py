"""The indexes of a segment: by offset, by time, and of aborted transactions.

- `index_file`: entries of one length in memory and in their file, which the offset index and the time index share
- `offset_index`: offset → position in the log file
- `time_index`: timestamp → offset
- `transaction_index`: the aborted transactions whose markers are in the segment
"""
