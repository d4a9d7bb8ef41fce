"""One request to a broker and its answer."""
