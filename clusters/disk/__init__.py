"""A broker's disk that can be slow or fail: what it reads, writes and flushes asks the harness.

The broker's data lie behind a file system of this machine's kernel that a process of ours serves
(FUSE), so that what is slow is slow for the kernel too, and not at some line of Kafka's code.
"""
