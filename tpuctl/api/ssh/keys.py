"""tpuctl's own SSH key: made once under TPUCTL_HOME, never in ~/.ssh."""

from dataclasses import dataclass
from pathlib import Path

from tpuctl.config import Context, create_private, write_private
from tpuctl.errors import DamagedStateError

USER = "tpuctl"
"""The account on a worker; the guest agent makes it from the node's ssh-keys metadata."""


@dataclass(frozen=True, slots=True)
class Access:
    """The user name and key that tpuctl logs in with, and the dialer that reaches workers."""

    user: str
    key_path: Path
    public_key: str
    dialer: str
    context: Context | None = None
    """Whose project and credentials a dialer may use, where it needs them."""

    @property
    def known_hosts(self) -> Path:
        """The directory of the nodes' host keys."""
        return self.key_path.parent / "known_hosts"

    @property
    def known_jump_hosts(self) -> Path:
        """The file of the jump hosts' host keys, which the user writes."""
        return self.key_path.parent / "known_jump_hosts"

    @property
    def metadata_line(self) -> str:
        """The line that lets this key in, as `ssh-keys` metadata wants it."""
        return f"{self.user}:{self.public_key}"


def load_access(home: Path, dialer: str, context: Context | None = None) -> Access:
    """The key pair under `home`, made when it is not there. Raises LocalIOError."""
    private, public = key_paths(home)
    if not public.is_file():
        _make(private, public)
    return Access(USER, private, public.read_text("ascii").strip(), dialer, context)


def key_paths(home: Path) -> tuple[Path, Path]:
    """The private and the public half of the key under `home`, whether they are there or not."""
    return home / "ssh" / "id_ed25519", home / "ssh" / "id_ed25519.pub"


def public_half(private: Path) -> str:
    """The line of the public half of a key. Raises DamagedStateError, OSError."""
    import asyncssh

    try:
        return asyncssh.read_private_key(private).export_public_key().decode("ascii").strip()
    except (asyncssh.KeyImportError, ValueError) as error:
        raise DamagedStateError(f"{private} is not an SSH key: {error}") from error


def _make(private: Path, public: Path) -> None:
    """Make the key pair, its private half first; of several processes that do so, one wins."""
    import asyncssh

    new = asyncssh.generate_private_key("ssh-ed25519", comment=USER)
    create_private(private, new.export_private_key())
    key = asyncssh.read_private_key(private)
    write_private(public, key.export_public_key())


def with_key(metadata: dict[str, str], access: Access) -> dict[str, str] | None:
    """The whole metadata map with our key added, or None when it is already there."""
    lines = [line for line in metadata.get("ssh-keys", "").splitlines() if line.strip()]
    if access.metadata_line in lines:
        return None
    return {**metadata, "ssh-keys": "\n".join([*lines, access.metadata_line])}
