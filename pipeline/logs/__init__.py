"""The files of a log directory, read without a broker: what lies there, and its records as Arrow batches."""
