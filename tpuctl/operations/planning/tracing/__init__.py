"""What a JAX function computes, traced in a process of its own."""
