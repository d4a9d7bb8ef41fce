"""A broker's disk that can be slow: what it reads, writes and flushes asks the harness first.

The broker's data lie behind a file system of this machine's kernel that a process of ours serves
(FUSE), so that what is slow is slow for the kernel too, and not at some line of Kafka's code.
"""
