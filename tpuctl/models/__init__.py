"""What tpuctl talks about: frozen records and the API's own state names."""
