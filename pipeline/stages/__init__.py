"""Stages of Spark that topics join: declared, run, and purged behind."""
