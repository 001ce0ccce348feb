"""JSON Schema: what a schema says, draft by draft, and whether each value of one schema is a value of another."""
