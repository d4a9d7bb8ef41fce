"""Points of truncation: where a log's leader epochs are cut, in memory and in their file."""

from kchaos.clusters.agent.point import Place, Point

_FIRST_CACHE = "kafka.server.epoch.LeaderEpochFileCache"
_CACHE = "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache"

EPOCH_POINTS = (
    Point(
        name="epoch-truncation",
        meaning="a log was truncated, or loaded, and its leader epoch cache is about to be",
        places=(
            Place((0, 11, 0, 0), _FIRST_CACHE, "clearAndFlushLatest", seen='"" + $1'),
            Place((2, 0, 1), _FIRST_CACHE, "truncateFromEnd", seen='"" + $1'),
            Place((3, 5, 0), _CACHE, "truncateFromEnd", seen='"" + $1'),
            Place((3, 8, 0), _CACHE, "truncateFromEndAsyncFlush", seen='"" + $1'),
        ),
    ),
    Point(
        name="epoch-flush",
        meaning="what a truncation dropped is about to leave leader-epoch-checkpoint as well",
        places=(
            # Before, the thread that truncates writes the file.
            Place((3, 8, 0), _CACHE, "writeToFileForTruncation"),
            Place((3, 9, 0), _CACHE, "writeIfDirExists"),
        ),
    ),
)
