"""A Kafka that is ready to start: its files, its Java, and their digests."""
