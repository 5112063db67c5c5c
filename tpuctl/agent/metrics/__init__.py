"""What a worker measures: its host, its chips and its program. Standard library, Python 3.8."""
