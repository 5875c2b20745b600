"""The commands: flags, environment and config file, the console, a person at the terminal."""
