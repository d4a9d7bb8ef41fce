"""The state of the machine, and a transition in the making."""
