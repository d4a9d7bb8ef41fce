"""Named points of Kafka's code: where each is in which release, read of points.toml.

Class names, methods and their parameters were read from the jars of the releases. A few points are
of a broker's disk in place of its code: ``clusters.disk`` serves them, the same in every release.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import pairwise

from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.planted import PLANTED_BUGS, PlantedBug
from kchaos.clusters.agent.point import DISK_OPERATIONS, DiskOperation, Place, Point
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import KNOWN_RELEASES, Release, release_of
from kchaos.clusters.spec import ClusterSpec

CONTROLLED_SHUTDOWN = "controlled-shutdown"
CONTROLLER_WRITE = "controller-write"
REGISTERED = "registered"
SEND_FETCH = "send-fetch"
FETCH_REQUEST = "fetch-request"
FETCH_READ = "fetch-read"
LOG_READ = "log-read"
REMOTE_OFFSET = "remote-offset"
REMOTE_COPY_CHECKPOINT = "remote-copy-checkpoint"
REMOTE_READ = "remote-read"


def disk_point(operation: DiskOperation, *, is_cached: bool) -> str:
    """Return the name of the point at which a broker's disk does this."""
    return f"{'cached-' if is_cached else ''}disk-{operation}"


def _code_points() -> Iterator[Point]:
    """Yield the points of Kafka's code, as points.toml has them."""
    table = tomllib.loads(files(__package__).joinpath("points.toml").read_text("utf-8"))
    for name, point in table["points"].items():
        places = [_place(row, table["expressions"]) for row in point.pop("places")]
        for earlier, later in pairwise(places):
            assert earlier.since < later.since, f"{name}: {later.since} is out of order"
        yield Point(name=name, places=tuple(places), **point)


def _place(row: dict[str, str], expressions: Mapping[str, str]) -> Place:
    def field(name: str, default: str = "") -> str:
        text = row.get(name, default)
        while "{" in text:
            text = text.format(**expressions, **row)
        return text

    return Place(
        tuple(map(int, row["since"].split("."))),
        field("class"),
        field("method"),
        after=field("after"),
        reader=field("reader", '""'),
        seen=field("seen", '""'),
    )


def _disk_points() -> Iterator[Point]:
    for is_cached in (False, True):
        for operation in DISK_OPERATIONS:
            # Behind the page cache nobody waits for what is written.
            if not (is_cached and operation == "write"):
                yield Point(
                    name=disk_point(operation, is_cached=is_cached),
                    meaning=f"the kernel asks a broker's disk to {operation}, "
                    f"{'behind' if is_cached else 'without'} the page cache",
                    places=(),
                    names_partitions=True,
                    of_disk=operation,
                    is_cached=is_cached,
                )


POINTS: Mapping[str, Point] = {point.name: point for point in (*_code_points(), *_disk_points())}
"""The points by name."""


def point_of(name: str, release: Release) -> tuple[Point, Place]:
    """Return the point of that name and where it is in a release.

    Raises ReleaseError when no point is named so, or when the release has no such place; then it
    names the nearest known release that has one.
    """
    why_not = unknown_points([name], release)
    if why_not:
        raise ReleaseError(why_not)
    point = _named(name)
    place = None if point is None else point.place(release)
    assert point is not None
    assert place is not None
    return point, place


def unknown_points(names: Iterable[str], release: Release) -> str:
    """Return why a broker of this release cannot stop at one of these points, or ""."""
    for name in names:
        point = _named(name)
        if point is None:
            return f"no point is named {name!r}; known: {', '.join(POINTS)}"
        if isinstance(point, PlantedBug) and point.place(release) is None:
            fits = ", ".join(point.releases)
            return f"the bug {point.short_name} fits no method of {release.text}: it fits {fits}"
        if point.of_disk is None and point.place(release) is None:
            near = _nearest(point, release)
            return f"Kafka {release.text} has no point {name!r}; the nearest that has is {near}"
    return ""


def disk_points(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the points that are of a broker's disk and not of its code.

    Raises ReleaseError when a disk had to have its page cache and to have none.
    """
    points = tuple(name for name in names if name in POINTS and POINTS[name].of_disk is not None)
    if len({POINTS[name].is_cached for name in points}) > 1:
        raise ReleaseError(
            f"one disk cannot be behind the page cache and without it: {', '.join(points)}; take "
            "either the cached points or the others"
        )
    return points


def code_points(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the points that are of a broker's code: its agent serves them."""
    return tuple(name for name in names if name not in POINTS or POINTS[name].of_disk is None)


def planted_refused(name: str, release: Release, *, is_kraft: bool) -> str:
    """Return why a planted bug, by short name, is not for such a cluster, or ""."""
    bug = PLANTED_BUGS.get(name)
    if bug is None:
        return f"no bug {name!r} is there to plant: kchaos list --planted has them"
    place = bug.place(release)
    of_zookeeper = place is not None and place.java_class.startswith("kafka.")
    if is_kraft and bug.side == "controller" and of_zookeeper:
        return f"the bug {name} is of controllers with ZooKeeper: take --mode zookeeper"
    return unknown_points([bug.name], release)


def controller_bugs(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the bugs that are planted in the controllers of a KRaft cluster."""
    planted = dict.fromkeys(point for broker in spec.brokers for point in broker.points)
    bugs = {bug.name: bug.side for bug in PLANTED_BUGS.values()}
    return tuple(name for name in planted if bugs.get(name) == "controller")


def _named(name: str) -> Point | None:
    return POINTS.get(name) or PLANTED_BUGS.get(name.removeprefix(PLANTED))


def _nearest(point: Point, release: Release) -> str:
    """Return the known release with that point that has the fewest others in between."""
    known = sorted(map(release_of, KNOWN_RELEASES), key=lambda each: each.number)
    at = sum(each.number < release.number for each in known)
    having = [index for index, each in enumerate(known) if point.place(each) is not None]
    return known[min(having, key=lambda index: abs(index - at))].text if having else "none"
