"""What a cluster asks of releases that do not have it, whatever starts it."""

import pytest

from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.spec_checks import refuse_unknown

FORMAT, PROTOCOL = "log.message.format.version", "inter.broker.protocol.version"


def refuse(
    *kafkas: str, properties: dict[str, str] | None = None, points: tuple[str, ...] = ()
) -> None:
    brokers = tuple(
        BrokerSpec(id=number, kafka=kafka, points=points) for number, kafka in enumerate(kafkas)
    )
    spec = ClusterSpec(brokers=brokers, properties=properties or {})
    refuse_unknown(spec, {number: release_of(kafka) for number, kafka in enumerate(kafkas)})


def test_what_its_releases_have_is_started() -> None:
    refuse("1.1.1", "2.0.1", properties={PROTOCOL: "1.1", FORMAT: "0.10.2"})


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({FORMAT: "2.0"}, r"broker 0: .*2\.0, which 1\.1\.1 does not know: it is older"),
        ({FORMAT: "0.11.0", PROTOCOL: "0.10.2"}, r"broker 0: .*version 0\.10\.2 forbids: raise"),
        ({PROTOCOL: "2.0"}, r"broker 0: inter\.broker\.protocol.*which 1\.1\.1 does not know"),
    ],
    ids=["a format newer than the binary", "a format that the protocol forbids", "a protocol"],
)
def test_a_format_or_protocol_that_a_broker_does_not_start_with_is_refused(
    properties: dict[str, str], why: str
) -> None:
    with pytest.raises(ReleaseError, match=why):
        refuse("1.1.1", properties=properties)


def test_of_two_releases_the_older_one_forbids_the_newer_ones_format() -> None:
    with pytest.raises(ReleaseError, match=r"broker 0: .* 2\.0, which 1\.1\.1 does not know"):
        refuse("1.1.1", "2.0.1", properties={FORMAT: "2.0"})


def test_a_point_that_no_release_has_is_refused() -> None:
    with pytest.raises(ReleaseError, match="broker 0: "):
        refuse("1.1.1", points=("no-such-point",))
