"""Services as a whole: engines on simulated slices, the real proxy, and many clients."""
