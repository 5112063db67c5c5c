"""How long whole programs take on slices, and what they hold: training, prefill, decode.

Every answer is modelled: a value, an interval, the terms it is made of, what bounds it, and where
its constants come from. Pure functions without I/O; figures are numbers or arrays that broadcast.
"""
