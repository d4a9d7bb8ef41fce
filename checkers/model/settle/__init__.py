"""One scheduler: after each event everything that can happen happens, in a fixed order."""
