"""Starting and stopping the parts of a cluster, in order, on any host."""
