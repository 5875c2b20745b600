"""Does thinking help your model? Cases under several settings, counted and compared."""
