"""The Service Account Credentials API: who may act for an account without its key."""
