"""Names of the points at which a leader tells what it knows of its followers.

What is told there is Kafka's own text of kafka.cluster.Replica: `clusters.agent.points` has it
written, and `checkers.evidence.leader_view` reads it.
"""

FETCH_BEGUN = "fetch-begun"
"""A leader is about to read its logs for a fetch, and says whose."""
FETCH_COUNTED = "fetch-counted"
"""A leader has counted a follower's fetch."""
ISR_CHECK = "isr-check"
"""A leader looks which followers of a partition are in sync."""
