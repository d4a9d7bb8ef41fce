"""What is judged: runs one by one or many with Spark, and the words for a verdict."""
