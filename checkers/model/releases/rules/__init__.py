"""One small module per KIP or fix; `order` has them all, in the order in which they apply."""
