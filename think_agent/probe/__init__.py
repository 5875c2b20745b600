"""Finds out what an endpoint really does: it is asked, and its replies are judged."""
