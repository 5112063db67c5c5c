"""What a list is made of: values, the columns that fit, and what --filter and --sort choose."""
