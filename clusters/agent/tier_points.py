"""Named points of tiered logs, and of the remote store that stands for any other."""

from kchaos.clusters.agent.point import Place, Point

REMOTE_OFFSET = "remote-offset"
REMOTE_COPY_CHECKPOINT = "remote-copy-checkpoint"
REMOTE_READ = "remote-read"

_REMOTE_STORE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"

UNIFIED_LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
"""The class of logs since 4.1."""
TIER_POINTS = (
    Point(
        name=REMOTE_OFFSET,
        meaning="a log has been told how far its records are in the remote tier",
        at_exit=True,
        names_partitions=True,
        is_told=True,
        places=(
            Place(
                (3, 6, 0),
                "kafka.log.UnifiedLog",
                "updateHighestOffsetInRemoteStorage",
                seen='"(" + $0.topicPartition() + ",offset=" + $1 + ")"',
            ),
            Place(
                (4, 1, 0),
                UNIFIED_LOG,
                "updateHighestOffsetInRemoteStorage",
                seen='"(" + $0.topicPartition() + ",offset=" + $1 + ")"',
            ),
        ),
    ),
    Point(
        name=REMOTE_COPY_CHECKPOINT,
        meaning="the remote store has a segment's log and indexes, and not its checkpoint",
        fails_with='new java.io.IOException("the remote store failed")',
        is_told=True,
        places=(
            # The copies of a segment's files are those of an anonymous class.
            Place(
                (3, 6, 0),
                f"{_REMOTE_STORE}$1",
                "transfer(java.nio.ByteBuffer,java.io.File)",
                seen='"(" + $2.getName() + ")"',
            ),
        ),
    ),
    Point(
        name=REMOTE_READ,
        meaning="a segment in the remote store is about to be read for a consumer",
        is_told=True,
        places=(
            Place(
                (3, 6, 0),
                _REMOTE_STORE,
                "fetchLogSegment("
                "org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata,int)",
                seen='"(start=" + $1.startOffset() + ",position=" + $2 + ")"',
            ),
        ),
    ),
)
"""Points that releases have from 3.6.0 on."""
