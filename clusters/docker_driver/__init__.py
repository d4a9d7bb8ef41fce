"""The Docker driver: the same cluster in containers, in any image with glibc."""
