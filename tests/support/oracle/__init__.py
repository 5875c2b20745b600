"""The oracle: what a transcript says (`facts.py`), and whether a run kept the rules (`rules.py`).

Both use the words of the kit and share no code with it. They are slow and plain: everything is read
from the whole list of messages.
"""
