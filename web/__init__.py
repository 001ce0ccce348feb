"""What the servers of HTTP share: the control API and the schema registry."""
