"""Does thinking help your model? Runs cases under several settings and compares them."""
