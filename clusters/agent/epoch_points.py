"""Points of truncation: where a log's leader epochs are cut, in memory and in their file."""

from kchaos.clusters.agent.point import Place, Point

_FIRST_CACHE = "kafka.server.epoch.LeaderEpochFileCache"
_CACHE = "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache"

EPOCH_POINTS = (
    Point(
        name="epoch-truncation",
        meaning="a log was truncated, or loaded, and its leader epoch cache is about to be",
        places=(
            Place(
                since=(0, 11, 0, 0),
                java_class=_FIRST_CACHE,
                method="clearAndFlushLatest",
                seen='"" + $1',
            ),
            Place(
                since=(2, 0, 1), java_class=_FIRST_CACHE, method="truncateFromEnd", seen='"" + $1'
            ),
            Place(since=(3, 5, 0), java_class=_CACHE, method="truncateFromEnd", seen='"" + $1'),
            Place(
                since=(3, 8, 0),
                java_class=_CACHE,
                method="truncateFromEndAsyncFlush",
                seen='"" + $1',
            ),
        ),
    ),
    Point(
        name="epoch-flush",
        meaning="what a truncation dropped is about to leave leader-epoch-checkpoint as well",
        places=(
            # Before, the thread that truncates writes the file.
            Place(since=(3, 8, 0), java_class=_CACHE, method="writeToFileForTruncation"),
            Place(since=(3, 9, 0), java_class=_CACHE, method="writeIfDirExists"),
        ),
    ),
)
