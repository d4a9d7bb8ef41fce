"""Since 3.8.0 leader-epoch-checkpoint is rewritten asynchronously after a truncation.

The file of a running broker may still have entries that memory has dropped; an assignment writes it
at once. Read from org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache
(`truncateFromEndAsyncFlush`), 3.7.0 and 3.8.0.
"""

from checkers.model.generation import Rule

ASYNCHRONOUS = Rule(name="asynchronous epoch checkpoint", changes={"flushes_epochs_later": True})
