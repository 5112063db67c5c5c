"""The five collectives: who gives what to whom, in which order it is added, what it costs."""
