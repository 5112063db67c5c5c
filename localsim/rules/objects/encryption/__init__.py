"""How objects are encrypted: with keys of customers, with local keys that stand for Cloud KMS."""
