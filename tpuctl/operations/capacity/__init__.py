"""Where a type can be had: what is known of each zone, and which zone is asked first."""
