"""Segments: a replica's files on disk, as batches, values and evidence; bytes in, values out."""
