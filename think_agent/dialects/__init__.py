"""Ways to speak of tools without tool calling: a dialect wraps a Model and is a Model."""
