"""The machine: processes, ports, memory, waiting, and what is left over on it."""
