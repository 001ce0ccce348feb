"""The log cleaner: compaction that keeps its promises (KIP-354, KIP-534).

- `clean`: one pass over one log. Where to begin reading. Its input: `cleanable_log`; its report: `stats`
- `offset_map`: the newest offset of every key, within a budget of memory; `key_mapper` fills it
- `rewrite`: the bytes of a batch after cleaning; `cleaned_transactions`: which control batches and aborted data may go;
  `delete_horizons`: until when tombstones and markers stay
- `segment_reader`, `block`: reading segments, and compressed batches; `cleaned_segment`: writing a segment
- `chunk_filter`: the chunks of a segment, two at a time where a second thread helps
- `schedule`: which log to clean next; `dirtiness`: how much of a log is dirty; `cleaning_states`: what the cleaner does
  with a partition
- `worker`: a pass in a thread; `cleaner_checkpoint`: how far each log is clean; `throttle`: bytes per second

A log belongs to the loop. A pass runs in a thread, on what `schedule` has captured of the log there: sealed segments,
which do not change. It hands each group of cleaned segments back to the loop, which swaps it in.
"""
