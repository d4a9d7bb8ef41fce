"""KAFKA-4039: a broker that ends itself does not wait for the thread that ends it.

Until then a fetcher thread calls System.exit, and the shutdown hook waits for that thread
(kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange and kafka.server.KafkaServer.shutdown,
0.10.2.2; there with FatalExitError, 0.11.0.0).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_4039 = Rule(
    name="KAFKA-4039",
    since=("0.11.0.0",),
    source="kafka.server.ReplicaFetcherThread, 0.11.0.0",
    meaning=(
        "The process of a broker that ends itself since a leader's log is shorter than its own "
        "ends. Before, its shutdown closes the sockets and waits for the fetcher thread that "
        "called it: the process lives on, registered, and neither fetches nor answers."
    ),
    change=lambda known: replace(known, hangs_at_exit=False),
)
