"""Kafka's releases as data: one row per release line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache

from kchaos.checkers.acts import Mode
from kchaos.clusters.errors import ReleaseError

FIRST_KRAFT = "3.3"
METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
"""1 for a dynamic quorum, of which every release from 3.9 on is capable (KIP-853)."""
LEAST_METADATA_VERSION = 7
"""That of 3.3, from which on the metadata log has all that is read of it."""

_LOG4J = "org.slf4j:slf4j-log4j12:1.7.25"
_RELOAD4J = "org.slf4j:slf4j-reload4j:1.7.36"
# Java 11 has no javax.xml.bind any more; Kafka before 1.0 encodes its cluster id with it.
_JAXB = "javax.xml.bind:jaxb-api:2.3.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLine:
    """Requirements of a release line's brokers for being started.

    ``line`` is the part of the release before its patch number; ``scala`` is the suffix of
    the Maven artifact; ``extra_jars`` are Maven coordinates added to the artifact's own
    dependencies (always one slf4j binding: without it there is no broker log and ZooKeeper
    3.4 fails); ``java`` is the Java that its brokers run on; ``known`` are the releases of
    the line that are tested, ``with_kraft`` those that are tested with KRaft. ``modes`` says where
    its clusters may keep their metadata.
    ``feature_levels`` are what ``kafka-storage format`` gives a new KRaft cluster, by the feature's
    name; one of 0 is known and left off.
    """

    line: str
    scala: str
    extra_jars: tuple[str, ...]
    known: tuple[str, ...]
    java: int = 11
    modes: tuple[Mode, ...] = ("zookeeper",)
    with_kraft: tuple[str, ...] = ()
    feature_levels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Release:
    """One release; releases sort by age, oldest first."""

    number: tuple[int, ...]
    text: str
    line: ReleaseLine = field(compare=False)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Maven coordinates of everything that a broker needs, Kafka itself first."""
        kafka = f"org.apache.kafka:kafka_{self.line.scala}:{self.text}"
        return (kafka, *self.line.extra_jars)

    @property
    def judged_as(self) -> str:
        """The nearest release that was published, by whose rules a build of its own is judged.

        A snapshot is on the way to its release, so that is the one before, if its line has one.
        """
        number = list(self.number)
        if _SNAPSHOT in self.text.upper() and number[-1] > 0:
            number[-1] -= 1
        return ".".join(map(str, number))

    @property
    def protocol_version(self) -> str:
        """The value of inter.broker.protocol.version that this release speaks at best."""
        return self.line.line

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Where its clusters may keep their metadata, the usual place first."""
        return self.line.modes

    @property
    def feature_levels(self) -> Mapping[str, int]:
        """The feature levels of a new KRaft cluster; see ``ReleaseLine``."""
        return self.line.feature_levels


def _line(line: str, scala: str, extra_jars: tuple[str, ...], *known: str) -> ReleaseLine:
    return ReleaseLine(line=line, scala=scala, extra_jars=extra_jars, known=known)


def _both(
    line: str, metadata_version: int, *known: str, with_kraft: tuple[str, ...]
) -> ReleaseLine:
    """Return a line with ZooKeeper, and with KRaft, which counts as finished from 3.3 on."""
    return replace(
        _line(line, "2.13", (_RELOAD4J,), *known),
        modes=("zookeeper", "kraft"),
        with_kraft=with_kraft,
        feature_levels={
            METADATA_VERSION: metadata_version,
            **({KRAFT_VERSION: 0} if line == "3.9" else {}),
        },
    )


def _kraft(
    line: str, *known: str, metadata: int, elr: int, share: int = 0, streams: int = 0
) -> ReleaseLine:
    """Return a line with KRaft alone; ``elr`` are eligible leader replicas (KIP-966)."""
    return replace(
        _line(line, "2.13", (_RELOAD4J,), *known),
        java=17,
        modes=("kraft",),
        with_kraft=known,
        feature_levels={
            METADATA_VERSION: metadata,
            KRAFT_VERSION: 0,
            "group.version": 1,
            "transaction.version": 2,
            "eligible.leader.replicas.version": elr,
            "share.version": share,
            "streams.version": streams,
        },
    )


LINES: tuple[ReleaseLine, ...] = (
    _line("0.10.2", "2.12", (_LOG4J, _JAXB), "0.10.2.2"),
    _line("0.11.0", "2.12", (_LOG4J, _JAXB), "0.11.0.3"),
    _line("1.0", "2.12", (_LOG4J,), "1.0.2"),
    _line("1.1", "2.12", (_LOG4J,), "1.1.1"),
    _line("2.0", "2.12", (_LOG4J,), "2.0.0", "2.0.1"),
    _line("2.1", "2.12", (_LOG4J,), "2.1.0", "2.1.1"),
    _line("2.2", "2.12", (_LOG4J,), "2.2.0", "2.2.2"),
    _line("2.3", "2.12", (_LOG4J,), "2.3.1"),
    _line("2.4", "2.12", (_LOG4J,), "2.4.1"),
    _line("2.5", "2.12", (_LOG4J,), "2.5.1"),
    _line("2.6", "2.12", (_LOG4J,), "2.6.3"),
    _line("2.7", "2.12", (_LOG4J,), "2.7.2"),
    _line("2.8", "2.13", (_LOG4J,), "2.8.2"),
    _line("3.0", "2.13", (_LOG4J,), "3.0.2"),
    _line("3.1", "2.13", (_LOG4J,)),
    _line("3.2", "2.13", (_RELOAD4J,)),
    _both("3.3", 7, "3.3.2", with_kraft=("3.3.1", "3.3.2")),
    _both("3.4", 8, with_kraft=("3.4.1",)),
    _both("3.5", 11, with_kraft=("3.5.2",)),
    _both("3.6", 14, "3.6.2", with_kraft=("3.6.2",)),
    _both("3.7", 19, with_kraft=("3.7.2",)),
    _both("3.8", 20, with_kraft=("3.8.1",)),
    _both("3.9", 21, "3.9.1", with_kraft=("3.9.1", "3.9.2")),
    _kraft("4.0", "4.0.0", "4.0.1", "4.0.2", metadata=25, elr=0),
    _kraft("4.1", "4.1.0", "4.1.1", "4.1.2", metadata=27, elr=1),
    _kraft("4.2", "4.2.0", "4.2.1", "4.2.2", metadata=29, elr=1, share=1, streams=1),
    _kraft("4.3", "4.3.0", "4.3.1", metadata=30, elr=1, share=1, streams=1),
    _kraft("4.4", "4.4.0", metadata=33, elr=1, share=2, streams=1),
)

KNOWN_RELEASES: tuple[str, ...] = tuple(
    release for line in LINES if "zookeeper" in line.modes for release in line.known
)
"""The tested releases with ZooKeeper, whose replication the model follows."""
KRAFT_RELEASES: tuple[str, ...] = tuple(release for line in LINES for release in line.with_kraft)
"""The tested releases with KRaft."""
TESTED_RELEASES: tuple[str, ...] = tuple(
    release for line in LINES for release in dict.fromkeys(sorted((*line.known, *line.with_kraft)))
)
"""All of both, oldest first."""

_SNAPSHOT = "-SNAPSHOT"
_NUMBER = re.compile(r"(\d+(?:\.\d+){2,3})(?:[-.].*)?")


def judging_release_of(text: str) -> str:
    """Return the release called ``text`` if one can be judged by its rules.

    Raises ReleaseError for a build's own name, naming the nearest release, and as `release_of`.
    """
    nearest = release_of(text).judged_as
    if nearest != text.strip():
        raise ReleaseError(
            f"nothing can be judged as {text}, which is no published release; the nearest one is "
            f"{nearest}"
        )
    return nearest


def meant_by(text: str) -> str:
    """Return the newest known release that the text may stand for, such as 2.0.1 for "2.0"."""
    wanted = text.lower().removeprefix("v").removeprefix("kafka-")
    begun = [release for release in TESTED_RELEASES if f"{release}.".startswith(f"{wanted}.")]
    near = get_close_matches(wanted, TESTED_RELEASES, n=1, cutoff=0.7) if wanted else []
    return [*near, *begun][-1] if near or begun else ""


@lru_cache(maxsize=256)
def release_of(text: str) -> Release:
    """Return the release called ``text``, such as ``1.1.1`` or ``0.10.2.2``.

    Another patch release of a known line is accepted (whether it exists shows when its jars
    are resolved), and so is a suffix as patched builds have it (``1.1.2-SNAPSHOT``). Raises
    ReleaseError for anything else, naming the known releases.
    """
    matched = _NUMBER.fullmatch(text.strip())
    if matched:
        number = tuple(int(part) for part in matched[1].split("."))
        for line in LINES:
            length = line.line.count(".") + 1
            named = tuple(int(part) for part in line.line.split("."))
            if number[:length] == named and len(number) == length + 1:
                return Release(number=number, text=text.strip(), line=line)
    meant = meant_by(text.strip())
    raise ReleaseError(
        f"{text!r} is no known Kafka release; {f'did you mean {meant}? ' if meant else ''}"
        f"give a patch release of the lines {', '.join(line.line for line in LINES)} "
        "(kchaos versions lists them), or the path of a distribution folder or .tgz"
    )
