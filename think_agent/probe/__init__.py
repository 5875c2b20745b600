"""Finds out what an endpoint really does: ask it a few questions, and judge its replies."""
