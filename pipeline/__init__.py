"""Data pipelines and audits on Spark, over kmini or Apache Kafka; nothing here needs the broker."""

from .clients import Kafka
from .stages.declaration import Avro, Batches, DeadLetters, DeclarationError, Files, Stage, Topic
from .stages.pipeline import Pipeline

__all__ = ["Avro", "Batches", "DeadLetters", "DeclarationError", "Files", "Kafka", "Pipeline", "Stage", "Topic"]
