"""Byte formats of Kafka: bytes in, values out. The one room of checkers that others may use."""
