"""What is wrong with a job or a node: rules over samples, the record and the log's end."""
