"""Supported upgrades, as Kafka's own upgrade notes say, release line by release line."""

from collections.abc import Mapping
from dataclasses import dataclass

from kchaos.checkers.acts import Mode
from kchaos.clusters.releases import FIRST_KRAFT, LINES, METADATA_VERSION, Release
from kchaos.clusters.start.spec_checks import SEVERAL_DIRECTORIES
from kchaos.harness.errors import UsageError

_PAGE = "docs/upgrade.html"
_OLDEST = "0.8"
OF_4 = "https://kafka.apache.org/43/getting-started/upgrade"
METADATA_CHANGES = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""The metadata versions whose records are new: MetadataVersion.didMetadataChange, Kafka 4.4.0."""
_OPERATIONS = "docs/ops.html"
_FIRST_MIGRATION, _FIRST_WAY_BACK = (3, 5), (3, 7)
NO_WAY_BACK = (
    "a cluster whose migration is finalized cannot go back to ZooKeeper (Limitations of the "
    f"ZooKeeper to KRaft migration, {_OPERATIONS} at 3.8.0)"
)
_FIRST_TO_DYNAMIC = (4, 1)
_ZOOKEEPER_3_8, _BEFORE_ZOOKEEPER_3_8 = (3, 6), (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Notes of one release line on clusters with ZooKeeper.

    Attributes:
        line: The release line to which they lead.
        through: The newest line from which they lead there; the oldest is 0.8 in all of them.
        tag: The tag of Kafka's source at which they were read. Those of 3.8 and 3.9 got their steps
            after the releases, on trunk, where the commit is named.
        has_way_back: Whether they say that new binaries may be taken back while the old protocol is
            pinned, and not afterwards. Earlier notes say nothing of a way back.
    """

    line: str
    through: str
    tag: str
    has_way_back: bool = True

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"Kafka's upgrade notes of {self.line}, {_PAGE} at {self.tag}"

    @property
    def source(self) -> str:
        """The same within a sentence."""
        return f"{self.place},"


def _silent(line: str, through: str, tag: str) -> Notes:
    return Notes(line=line, through=through, tag=tag, has_way_back=False)


NOTES: Mapping[str, Notes] = {
    notes.line: notes
    for notes in (
        _silent("0.11.0", "0.10.2", "0.11.0.2"),
        _silent("1.0", "0.11.0", "1.0.2"),
        _silent("1.1", "1.0", "1.1.1"),
        _silent("2.0", "1.1", "2.0.1"),
        Notes(line="2.1", through="2.0", tag="2.1.1"),
        Notes(line="2.2", through="2.1", tag="2.2.2"),
        Notes(line="2.3", through="2.2", tag="2.3.1"),
        Notes(line="2.4", through="2.3", tag="2.4.1"),
        Notes(line="2.5", through="2.4", tag="2.6.3"),
        Notes(line="2.6", through="2.5", tag="2.6.3"),
        Notes(line="2.7", through="2.6", tag="2.7.2"),
        Notes(line="2.8", through="2.7", tag="2.8.2"),
        Notes(line="3.0", through="2.8", tag="3.0.2"),
        Notes(line="3.1", through="3.0", tag="3.1.2"),
        Notes(line="3.2", through="3.1", tag="3.2.3"),
        Notes(line="3.3", through="3.2", tag="3.3.2"),
        Notes(line="3.4", through="3.3", tag="3.4.1"),
        Notes(line="3.5", through="3.4", tag="3.5.2"),
        Notes(line="3.6", through="3.5", tag="3.6.2"),
        Notes(line="3.7", through="3.6", tag="3.7.1"),
        Notes(line="3.8", through="3.7", tag="1eb7644349c"),
        Notes(line="3.9", through="3.8", tag="1eb7644349c"),
    )
}
"""The notes of each line that has any."""


def mode_of(older: Release, newer: Release, wanted: Mode | None) -> Mode:
    """Return the wanted mode of a cluster that runs both releases, or the usual one of the two."""
    return wanted or ("kraft" if "kraft" in (older.modes[0], newer.modes[0]) else "zookeeper")


def via_of(older: Release, newer: Release, wanted: Mode | None, *, migrates: bool) -> str:
    """Return the release at which a cluster with ZooKeeper goes to KRaft on its way; "" for none.

    A cluster of a release that has both is meant to have KRaft, unless it `migrates`.
    """
    crosses = "zookeeper" in older.modes and "zookeeper" not in newer.modes
    if wanted or not crosses or not (migrates or older.modes == ("zookeeper",)):
        return ""
    last = next(line for line in reversed(LINES) if "zookeeper" in line.modes)
    return older.text if older.line == last else last.known[-1]


def require_playable(older: Release, newer: Release, mode: Mode = "zookeeper") -> None:
    """Refuse a pair that cannot be played, supported or not.

    Raises:
        UsageError: A release has no such mode; the message has Kafka's rule and its source.
    """
    if mode in older.modes and mode in newer.modes:
        return
    lacks = older if mode not in older.modes else newer
    if mode == "zookeeper":
        raise UsageError(
            f"no cluster with ZooKeeper runs {lacks.text}: on 3.9 it has to go to KRaft first, by "
            f"--migrate (upgrade notes of 4.0 and later, {OF_4}). Say --mode kraft if it has KRaft"
        )
    via = "" if newer.number < older.number else f", and from there to {newer.text}"
    raise UsageError(
        f"no cluster with KRaft is upgraded from {lacks.text}: Kafka does that from {FIRST_KRAFT} "
        "on, and earlier KRaft was a preview. A cluster with ZooKeeper goes to 3.9 first, there to "
        f"KRaft{via} (upgrade notes of 4.0 and later, {OF_4})"
    )


def require_migration(older: Release, newer: Release) -> None:
    """Refuse a migration from ZooKeeper to KRaft that cannot be run.

    Raises:
        UsageError: The releases differ, or none has it; the message has Kafka's rule and source.
    """
    if older.number != newer.number:
        raise UsageError(
            f"a migration from ZooKeeper to KRaft is at one release, not from {older.text} to "
            f"{newer.text}: software is not to be upgraded at the same time, {_OPERATIONS} at 3.8.0"
        )
    if "zookeeper" not in older.modes:
        raise UsageError(
            f"no cluster with ZooKeeper runs {older.text}, so none migrates: on 3.9 it has to "
            f"go to KRaft first (upgrade notes of 4.0 and later, {OF_4})"
        )
    if older.number < _FIRST_MIGRATION:
        raise UsageError(
            f"{older.text} has no migration from ZooKeeper to KRaft that ends: it came with 3.4 as "
            "a preview, whose log never says that metadata are migrated (ZkMigrationState, 3.5.0). "
            f"Kafka documents it from 3.5 on ({_OPERATIONS} at 3.5.2): upgrade to 3.9 before"
        )


def require_log_directories(older: Release, *, is_kraft: bool) -> None:
    """Refuse several log directories where a release has one alone.

    Raises:
        UsageError: The message has Kafka's rule and its source.
    """
    if is_kraft and older.number < SEVERAL_DIRECTORIES:
        raise UsageError(
            f"brokers of {older.text} have one log directory with KRaft: several act from 3.7 on "
            "(KIP-858). Leave --log-directories out"
        )


def require_dynamic_quorum(older: Release, newer: Release, mode: Mode, *, goes_back: bool) -> None:
    """Refuse a static quorum that is to become dynamic where Kafka has no way to it.

    Raises:
        UsageError: The message has Kafka's rule and its source.
    """
    if mode == "kraft" and newer.number >= _FIRST_TO_DYNAMIC and not goes_back and older < newer:
        return
    raise UsageError(
        f"a static quorum becomes dynamic at the end of an upgrade with KRaft to 4.1 or later, not "
        f"of {older.text} to {newer.text}{' and back' * goes_back}: controllers before 4.1 cannot "
        "raise kraft.version (RaftClient.upgradeKRaftVersion came with it, KAFKA-16538), and none "
        "lowers it (KIP-853). On 3.9 and 4.0 a new cluster alone has one: features "
        "{'kraft.version': 1}"
    )


def documented(release: Release) -> str:
    """Return where Kafka's documentation has the migration of a release, and what it says of it."""
    line = release.line.line
    early = line in ("3.5", "3.6", "3.7")
    said = ", as early access that is not for production" * early
    return f"ZooKeeper to KRaft migration, {_OPERATIONS} at {NOTES[line].tag}{said}"


def why_no_way_back(release: Release) -> str:
    """Return why no migration of a release is taken back, with its source, or ""."""
    if release.number >= _FIRST_WAY_BACK:
        return ""
    return (
        f"{documented(release)}, names going back to ZooKeeper among what is not supported; the "
        "first that has directions is that of 3.7"
    )


def why_unsupported(
    older: Release,
    newer: Release,
    *,
    back: bool = False,
    finalize: bool = False,
    one_roll: bool = False,
    mode: Mode = "zookeeper",
) -> str:
    """Return why Kafka does not support a procedure between releases, with its source, or "".

    With `back` the new binaries are rolled back, with `finalize` after feature levels were raised;
    with `one_roll` binaries and protocol change together. With KRaft only a downgrade may be
    unsupported (KIP-778).
    """
    if mode == "kraft":
        return _why_no_lower_level(*((newer, older) if finalize else (older, newer)))
    if newer.number < older.number:
        return _why_no_downgrade(older, newer)
    if newer.line == older.line:
        return ""
    notes = NOTES[newer.line.line]
    if one_roll:
        return (
            f"the inter-broker protocol is skipped: {notes.source} ask for a roll of binaries at "
            f"protocol {older.protocol_version}, and another one to {newer.protocol_version}"
        )
    if back and not notes.has_way_back:
        return (
            f"{notes.source} say nothing of a way back from {newer.line.line}; the first that do "
            "are those of 2.1"
        )
    if older.number < _BEFORE_ZOOKEEPER_3_8 and newer.number >= _ZOOKEEPER_3_8:
        return (
            f"{older.text} and {newer.text} are too far apart. From below 2.4 a cluster goes to a "
            "release from 2.4 to 3.5 first, since ZooKeeper 3.8 came with 3.6: "
            f"{NOTES['3.6'].source} and KIP-902"
        )
    return ""


def _why_no_lower_level(older: Release, newer: Release) -> str:
    """Return which metadata version stands in the way of a downgrade, or "".

    FeatureControlManager refuses one if any version above the target, up to the one in force, has
    metadata changes.
    """
    has, becomes = (release.feature_levels[METADATA_VERSION] for release in (older, newer))
    changed = [version for version in METADATA_CHANGES if becomes < version <= has]
    if not changed:
        return ""
    return (
        f"{METADATA_VERSION} {has} of {older.line.line} cannot become {becomes} of "
        f"{newer.line.line}, since metadata changed at {', '.join(map(str, changed))} "
        "(MetadataVersion.didMetadataChange of Kafka 4.4.0; FeatureControlManager refuses it, and "
        f"{OF_4} says so); --from {newer.text} --to {older.text} --mode kraft --back takes the "
        "binaries back before levels are raised"
    )


def _why_no_downgrade(older: Release, newer: Release) -> str:
    notes = NOTES.get(older.line.line)
    if newer.line == older.line or notes is None:
        return f"{newer.text} is older than {older.text}, and no notes say that one may go back"
    why = (
        f"{notes.source} say that there is no way back once the brokers speak protocol "
        f"{older.protocol_version}"
        if notes.has_way_back
        else f"{notes.source} say nothing of a way back"
    )
    way = f"--from {newer.text} --to {older.text} --back takes the binaries back before that"
    return f"{newer.text} is older than {older.text}: {why}; {way}"


def led_from(newer: Release, mode: Mode = "zookeeper") -> str:
    """Return the releases from which Kafka's notes lead to one, with their source, or ""."""
    if mode == "kraft":
        place = OF_4 if newer.modes == ("kraft",) else NOTES[newer.line.line].place
        return f"{place}, from {FIRST_KRAFT} on to {newer.line.line} with KRaft (KIP-778)"
    notes = NOTES.get(newer.line.line)
    if notes is None:
        return ""
    oldest = "2.4" if newer.number >= _ZOOKEEPER_3_8 else _OLDEST
    return f"{notes.source} lead from {oldest} through {notes.through} to {notes.line}"
