"""What the cleaner reports of its passes."""

from __future__ import annotations

from kmini.storage.cleaner.stats import LastPasses, PassReport


def test_with_two_threads_the_last_two_passes_count() -> None:
    passes = LastPasses()
    for utilization, read, written, seconds in ((0.9, 1000, 1000, 9.0), (0.5, 100, 50, 1.0), (0.2, 300, 50, 2.0)):
        report = PassReport(map_utilization=utilization, bytes_read=read, bytes_written=written, seconds=seconds)
        passes.note(report, threads=2)
    told = (passes.max_buffer_utilization_percent, passes.recopy_percent, passes.max_clean_time_secs)
    assert told == (50, 25, 2.0)
