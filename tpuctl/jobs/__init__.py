"""Jobs whose whole state lies in the bucket."""
