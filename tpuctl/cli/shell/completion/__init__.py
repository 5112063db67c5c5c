"""How a shell asks what a word may be: the words it sends, and the answer it takes."""
