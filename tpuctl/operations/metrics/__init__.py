"""What workers measure, of a job or of a node: live, and as it was kept."""
