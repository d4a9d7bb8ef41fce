"""Kafka's releases as data: one row per release line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kchaos.clusters.errors import ReleaseError

_LOG4J = "org.slf4j:slf4j-log4j12:1.7.25"
_RELOAD4J = "org.slf4j:slf4j-reload4j:1.7.36"
# Java 11 has no javax.xml.bind any more; Kafka before 1.0 encodes its cluster id with it.
_JAXB = "javax.xml.bind:jaxb-api:2.3.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLine:
    """What starting a broker of one release line takes.

    ``line`` is the part of the release before its patch number; ``scala`` is the suffix of
    the Maven artifact; ``extra_jars`` are Maven coordinates added to the artifact's own
    dependencies (always one slf4j binding: without it there is no broker log and ZooKeeper
    3.4 fails); ``java`` is the Java that its brokers run on; ``known`` are the releases of
    the line that are tested.
    """

    line: str
    scala: str
    extra_jars: tuple[str, ...]
    known: tuple[str, ...]
    java: int = 11


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Release:
    """One release; releases sort by age, oldest first."""

    number: tuple[int, ...]
    text: str
    line: ReleaseLine

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


def _line(line: str, scala: str, extra_jars: tuple[str, ...], *known: str) -> ReleaseLine:
    return ReleaseLine(line=line, scala=scala, extra_jars=extra_jars, known=known)


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
    _line("3.3", "2.13", (_RELOAD4J,), "3.3.2"),
    _line("3.4", "2.13", (_RELOAD4J,)),
    _line("3.5", "2.13", (_RELOAD4J,)),
    _line("3.6", "2.13", (_RELOAD4J,), "3.6.2"),
    _line("3.7", "2.13", (_RELOAD4J,)),
    _line("3.8", "2.13", (_RELOAD4J,)),
    _line("3.9", "2.13", (_RELOAD4J,), "3.9.1"),
)

KNOWN_RELEASES: tuple[str, ...] = tuple(release for line in LINES for release in line.known)

_SNAPSHOT = "-SNAPSHOT"
_NUMBER = re.compile(r"(\d+(?:\.\d+){2,3})(?:[-.].*)?")
_WITHOUT_ZOOKEEPER = re.compile(r"4\.\d+")


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
    if _WITHOUT_ZOOKEEPER.match(text.strip()):
        raise ReleaseError(
            f"Kafka {text.strip()} runs with KRaft alone, which kchaos does not support: it plays "
            f"clusters with ZooKeeper, up to {KNOWN_RELEASES[-1]}"
        )
    raise ReleaseError(
        f"{text!r} is no known Kafka release; known are {', '.join(KNOWN_RELEASES)} "
        "and other patch releases of the same lines, or give the path of a distribution "
        "folder or .tgz"
    )
