"""The slices of a job as the Cloud TPU API shows them, and the calls that change them."""
