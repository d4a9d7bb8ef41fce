"""One kind of request, or response, between brokers that does not arrive."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from clusters.api import Cluster
from clusters.links import ApiKey, Match
from faults.api import ACTS, Injection, Journal, broker_able, links_of
from faults.errors import FaultError


def api_key_named(name: str) -> ApiKey:
    """The API key with Kafka's own spelling of the name, such as "OffsetForLeaderEpoch".

    Raises:
        FaultError: Kafka's inter-broker protocol has no such API.
    """
    for key in ApiKey:
        if key.name.replace("_", "").lower() == name.lower():
            return key
    raise FaultError(f"no API is named {name!r}; known: {', '.join(key.name for key in ApiKey)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequests:
    """Keeps back what matches, whole, until it is healed; then it passes in order.

    Attributes:
        name: Names the hold in the journal.
        api: Kafka's name of the API, such as "Fetch" or "OffsetForLeaderEpoch".
        source: The broker that sends the request, or None for any.
        target: The broker that answers it, or None for any.
        direction: "request", or "response": then the target has handled the request.
        topic: With `partition`, only requests that concern this partition.
        fetch_offset_at_least: Only Fetch requests from this offset on.
    """

    name: str
    api: str
    source: int | None = None
    target: int | None = None
    direction: Literal["request", "response"] = "request"
    topic: str | None = None
    partition: int | None = None
    fetch_offset_at_least: int | None = None

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Installs the rule; what it holds is seen in the handle's `held`; releases on leaving.

        Raises:
            FaultError: No such API, or half a partition.
            RuleRefused: The rule cannot be decided for this API.
        """
        for broker in (self.source, self.target):
            if broker is not None:
                broker_able(cluster, broker)
        links = links_of(cluster)
        match = self._match()
        fields = {name: getattr(self, name) for name in ACTS["hold"]}
        with contextlib.ExitStack() as healing:
            with journal.acting("hold", **fields):
                hold = links.hold(match)
                # Also when the journal fails; releasing twice does no harm.
                healing.callback(hold.release)
            healing.callback(self._release, journal, hold)
            yield Injection(
                fault="HoldRequests", effect={"is_held": not hold.is_released}, handle=hold
            )

    def _match(self) -> Match:
        if (self.topic is None) != (self.partition is None):
            raise FaultError(
                f"hold {self.name!r} names topic {self.topic!r} and partition {self.partition}: "
                "give both, or neither to hold what concerns any partition"
            )
        about = None
        if self.topic is not None and self.partition is not None:
            about = (self.topic, self.partition)
        return Match(
            api_keys=frozenset({api_key_named(self.api)}),
            source=self.source,
            target=self.target,
            partition=about,
            fetch_offset_at_least=self.fetch_offset_at_least,
            direction=self.direction,
        )

    def _release(self, journal: Journal, hold: Any) -> None:
        held = [record.describe() for record in hold.held]
        with journal.acting("release", name=self.name):
            hold.release()
        journal.observed("released", name=self.name, held=held)
