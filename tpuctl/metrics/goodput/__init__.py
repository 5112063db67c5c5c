"""Where every second and every dollar of a job went."""
