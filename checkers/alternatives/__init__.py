"""What documents propose and no release does, beside what releases do: one module a document."""
