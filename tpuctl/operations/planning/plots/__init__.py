"""Pictures of plans, drawn by matplotlib."""
