"""What a broker's start and end do: recovery from disk, checkpoints, and what is forgotten."""

from collections.abc import Mapping

from checkers.model.epoch_cache import latest_epoch, truncate_from_end, truncate_from_start
from checkers.model.events import TopicPartition
from checkers.model.state import Broker, Cluster, Replica


def load(broker: Broker) -> None:
    """Start the process: load logs, epoch caches and high watermarks from disk.

    The log end offset is that of the last batch, whatever it was before; recovery after an unclean
    stop notes epochs again from the batches; the high watermark is what was checkpointed. Read from
    kafka.log.Log (loadSegments), kafka.log.LogSegment.recover and kafka.cluster.Partition
    (getOrCreateReplica), 1.1.1, 2.1.1 and 2.6.3.
    """
    broker.is_running = True
    broker.has_exited = False
    for replica in broker.replicas.values():
        replica.log.reload()
        if not broker.generation.keeps_epochs:
            replica.entries = ()
        elif not broker.was_stopped_cleanly:
            _recover_epochs(broker, replica)
        replica.entries = truncate_from_end(replica.entries, replica.log.log_end_offset)
        replica.entries = truncate_from_start(replica.entries, replica.log.log_start_offset)
        # Until the first checkpoint the file still holds what was read from it.
        replica.high_watermarks = [replica.checkpointed]
        replica.is_checkpoint_observed = False
        replica.set_high_watermark(min(replica.checkpointed, replica.log.log_end_offset))


def stop(
    cluster: Cluster,
    broker: Broker,
    *,
    is_clean: bool,
    checkpointed: Mapping[TopicPartition, int] | None = None,
) -> None:
    """End the process. What is on disk stays; the page cache outlives SIGKILL.

    Args:
        cluster: Where it stood; requests from and to the broker are lost with its connections.
        broker: Whose process ends.
        is_clean: Whether it had time to write its high watermarks.
        checkpointed: What the checkpoint file held afterwards, if it was read.
    """
    for partition, replica in broker.replicas.items():
        if checkpointed is not None:
            replica.checkpointed = checkpointed.get(partition, 0)
        elif is_clean and broker.is_running:
            replica.checkpointed = replica.high_watermark
        if is_clean or checkpointed is not None:
            replica.high_watermarks = [replica.checkpointed]
        replica.forget()
    if broker.is_running:
        broker.was_stopped_cleanly = is_clean
    broker.is_running = broker.is_paused = False
    broker.threads = {}
    broker.failed = set()
    broker.delayed_produces = []
    _drop_requests(cluster, broker)


def _recover_epochs(broker: Broker, replica: Replica) -> None:
    first = 0 if broker.generation.recovers_epoch_zero else 1
    entries = replica.entries
    for batch in replica.log.batches:
        if batch.magic >= 2 and batch.leader_epoch >= max(first, latest_epoch(entries) + 1):
            entries = broker.generation.assign_epoch(entries, batch.leader_epoch, batch.base_offset)
    replica.entries = entries


def _drop_requests(cluster: Cluster, gone: Broker) -> None:
    for broker in cluster.brokers.values():
        thread = broker.threads.get(gone.broker)
        if thread is not None:
            thread.in_flight = None
