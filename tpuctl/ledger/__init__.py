"""What many have seen of slices and of capacity, kept in the bucket for all who ask later."""
