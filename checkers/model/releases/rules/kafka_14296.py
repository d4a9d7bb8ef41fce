"""KAFKA-14296: a broker that shuts down steps down when another one leads."""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

LEADERS_IGNORED = Rule(
    name="leaders ignored in shutdown",
    since=("3.0.0",),
    until=("3.3.2",),
    mode="kraft",
    source="kafka.server.ReplicaManager, 3.3.1",
    meaning=(
        "A broker that shuts down takes up no state of a partition in which another broker leads: "
        "it goes on in its own leader epoch (KAFKA-14296)."
    ),
    change=lambda known: replace(known, ignores_leaders_in_shutdown=True),
)
