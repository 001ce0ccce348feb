"""The formats of schemas: `schema_format.py` says what each of them does."""
