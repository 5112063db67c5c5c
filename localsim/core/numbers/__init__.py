"""Number formats: bfloat16, fp8, int8."""
