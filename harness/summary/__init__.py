"""Summary of many runs beside an earlier night: as a page, Markdown, JSON and JUnit XML."""
