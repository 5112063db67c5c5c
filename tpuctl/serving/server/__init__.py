"""The model server: its routes, the thread of the model, start, drain and end."""
