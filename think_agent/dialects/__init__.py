"""Ways to speak of tools with models that have no tool calling: a dialect wraps a Model and is one."""
