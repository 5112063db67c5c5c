"""What tpuctl does: takes apis and models, returns models or yields events; never prints."""
