"""The log cleaner: compaction that keeps its promises (KIP-354, KIP-534).

- `clean`: one pass over one log. Where to begin reading. What it is given: `plan`; what it says afterwards: `stats`
- `offset_map`: the newest offset of every key, within a budget of memory; `keys`: filling it
- `rewrite`: the bytes of a batch afterwards; `transactions`: which control batches and aborted data may go
- `chunks`, `block`: reading segments, and batches that are compressed; `cleaned`: writing a segment
- `schedule`: which log next; `dirtiness`: how much of a log; `states`: what a partition is doing
- `worker`: a pass in a thread; `checkpoint`: how far each log is clean; `throttle`: bytes per second

A log belongs to the loop. A pass runs in a thread, on what `schedule` has captured of the log there: sealed segments,
which do not change. It hands each group of cleaned segments back to the loop, which swaps it in.
"""
