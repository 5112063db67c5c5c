"""Remembers the host key that a host shows when it is not a known one."""

from typing import Any

import asyncssh


class HostKeyRecorder(asyncssh.SSHClient):
    """An SSH client that refuses unknown host keys; `shown` is the last that it refused."""

    shown = ""
    """The public key, without a comment; '' as long as none was refused."""

    def validate_host_public_key(self, *shown: Any) -> bool:
        """Remember the key in OpenSSH's form, and refuse it."""
        self.shown = " ".join(shown[-1].export_public_key().decode().split()[:2])
        return False
