"""A broker: leader, follower, the requests between them, processes, tiers and the log cleaner."""
