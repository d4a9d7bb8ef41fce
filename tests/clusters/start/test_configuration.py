"""What brokers are started with before anybody sets something."""

import pytest

from kchaos.clusters.releases import release_of
from kchaos.clusters.start.configuration import broker_defaults

FACTOR = ".replication.factor"


@pytest.mark.parametrize(
    ("release", "topics"),
    [
        ("0.10.2.2", {"offsets.topic"}),
        ("2.8.2", {"offsets.topic", "transaction.state.log"}),
        ("4.1.2", {"offsets.topic", "transaction.state.log", "share.coordinator.state.topic"}),
    ],
)
@pytest.mark.parametrize(("brokers", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_have_three_replicas_or_as_many_as_there_are_brokers(
    release: str, topics: set[str], brokers: int, replicas: str
) -> None:
    given = broker_defaults(release_of(release), is_kraft=False, brokers=brokers)
    factors = {name.removesuffix(FACTOR): given[name] for name in given if name.endswith(FACTOR)}
    assert factors == {"default": "1", **dict.fromkeys(topics, replicas)}
