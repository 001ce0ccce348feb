"""Topics as Parquet files, and back."""
