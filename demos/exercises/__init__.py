"""Exercises of the course: each is a file with a red test. README.md says how to work on them."""
