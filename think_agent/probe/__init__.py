"""What does an endpoint really do? It is asked, and judged by what comes back."""
