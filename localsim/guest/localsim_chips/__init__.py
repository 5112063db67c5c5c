"""How a program of a worker opens the simulated chips, holds them, and tells what it does."""
