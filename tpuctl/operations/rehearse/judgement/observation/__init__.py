"""What runs show: their saves, their steps and values, and how they went on after an end."""
