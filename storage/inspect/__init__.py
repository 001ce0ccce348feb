"""The files of a data directory, described for people (`kmini log dump`). Reads, and never writes.

- `dump`: a path → a report; which module describes which file. Where to begin reading
- `dump_report`: the parts of a report, and reading a file that may be damaged anywhere
- `dump_log`, `dump_index`, `dump_small_files`: segments, indexes, and all other files
"""
