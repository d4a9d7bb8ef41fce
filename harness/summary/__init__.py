"""What many runs say together: beside an earlier night, as a page, Markdown, JSON and JUnit XML."""
