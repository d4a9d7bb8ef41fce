"""A small module for each KIP or fix: its rules, whole; a table has the rest."""
