"""The commands of studies, by entry points of the group `kchaos.commands`."""
