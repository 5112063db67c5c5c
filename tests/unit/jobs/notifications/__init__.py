"""Messages about jobs: what is due, their words and shapes, and servers that take them."""
