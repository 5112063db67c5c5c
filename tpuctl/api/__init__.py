"""The only room that knows grpc, ssh and Google's TPU messages."""
