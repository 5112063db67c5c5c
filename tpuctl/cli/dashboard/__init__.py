"""`tpuctl dashboard`: the pages, and the server of this machine that shows them."""
