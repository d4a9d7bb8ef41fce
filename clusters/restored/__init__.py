"""The driver `restored`: JVMs that CRIU makes of images, in place of JVMs that start anew.

An image is of a JVM that has started a server once, ended it, and waits for a configuration. All
JVMs of a run are made of the same images, whichever runs were before.
"""
