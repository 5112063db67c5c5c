"""The SSH server of a simulated worker, SFTP included."""
