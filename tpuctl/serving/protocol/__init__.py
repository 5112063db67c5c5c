"""The Open Inference Protocol (KServe v2) over REST: from requests to arrays, and back."""
