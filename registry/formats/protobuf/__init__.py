"""Protobuf's language: text to descriptors and back, and the comparison of descriptors."""
