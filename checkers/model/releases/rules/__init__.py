"""A small module for each KIP or fix: its rules, whole; listing the modules finds them all."""
