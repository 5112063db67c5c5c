"""Which object a file becomes, which file an object becomes, and which can become neither."""

import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from tpuctl.errors import PartialFailureError, RefusedError, TpuctlError, UsageError
from tpuctl.models.transfer import TransferRefusal

UNFINISHED = ".tpuctl-part-"
"""How the names of files begin that are not whole yet."""
OWN_PREFIX = "tpuctl/"
"""What tpuctl keeps for itself in a bucket: no sync deletes it, no copy of the bucket has it."""
PARTS_PREFIX = f"{OWN_PREFIX}parts/"
"""Objects that are not whole yet."""
MAX_KEY_BYTES = 1024
MAX_NAME_BYTES = 255


def split_url(url: str) -> tuple[str, str]:
    """`gs://bucket/key` as (bucket, key); raises UsageError."""
    bucket, _, key = url.removeprefix("gs://").partition("/")
    if not url.startswith("gs://") or not bucket:
        raise UsageError(f"{url!r} is not a gs:// address", hint="write gs://BUCKET/NAME")
    return bucket, key


def folder_prefix(prefix: str) -> str:
    """The prefix with a slash at its end, which all keys below it begin with; "" stays ""."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def single_key(prefix: str, name: str) -> str:
    """The key of a single file: `prefix` itself, or `prefix` and `name` when it ends with /."""
    return prefix + name if not prefix or prefix.endswith("/") else prefix


def why_no_key(key: str) -> str | None:
    """The reason why an object cannot have the name, or None.

    https://cloud.google.com/storage/docs/objects#naming
    """
    try:
        size_bytes = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size_bytes > MAX_KEY_BYTES:
        return f"the object's name would be longer than {MAX_KEY_BYTES} bytes"
    if "\r" in key or "\n" in key:
        return "an object's name has no line ends"
    if key in (".", "..") or key.startswith(".well-known/acme-challenge/"):
        return "Cloud Storage does not allow the name"
    if key.startswith(PARTS_PREFIX):
        return f"{PARTS_PREFIX} is for unfinished objects of tpuctl"
    return None


def is_data(key: str, size_bytes: int, prefix: str) -> bool:
    """Whether an object is one of those that a prefix means.

    Not a part of an unfinished one, nor the empty one that consoles put for a folder; nor what
    tpuctl keeps for itself, unless the prefix says so.
    """
    own = PARTS_PREFIX if prefix.startswith(OWN_PREFIX) else OWN_PREFIX
    return not key.startswith(own) and (size_bytes > 0 or not key.endswith("/"))


def why_no_file(name: str) -> str | None:
    """The reason why an object's name must not become a path below a target, or None."""
    if name.endswith("/") or not name:
        return "a name that ends with / cannot be a file"
    parts = name.split("/")
    if "\\" in name or "\0" in name:
        return "a name with a backslash or NUL is not a file's everywhere"
    if any(part in ("", ".", "..") for part in parts):
        return "the name would lead out of the target"
    if len(name) * 4 > MAX_NAME_BYTES and any(
        len(os.fsencode(part)) > MAX_NAME_BYTES for part in parts
    ):
        return f"a part of the name is longer than {MAX_NAME_BYTES} bytes"
    if parts[-1].startswith(UNFINISHED):
        return f"{UNFINISHED}... is for unfinished files of tpuctl"
    return None


def refused_error(
    count: int, kind: type[PartialFailureError | RefusedError] = PartialFailureError
) -> TpuctlError:
    """The error of so many refused names, after the rest, if there is any, was copied."""
    text = "1 name was refused" if count == 1 else f"{count} names were refused"
    return kind(text, hint="put right what the warnings name, or leave it out with --exclude")


def directory_conflicts(names: Iterable[str]) -> Iterator[TransferRefusal]:
    """Yield a refusal for each name that other names need as a directory."""
    present = names if isinstance(names, (set, dict)) else set(names)
    directories = {parent for name in present for parent in _parents(name)}
    for name in sorted(directories & set(present)):
        yield TransferRefusal(name, "a file and a directory of the same name")


def same_file_conflicts(
    names: Iterable[str], fold: Callable[[str], str]
) -> Iterator[TransferRefusal]:
    """Yield a refusal for each name that folds to the same text as another one."""
    spellings: dict[str, set[str]] = {}
    for spelling in {spelling for name in names for spelling in (name, *_parents(name))}:
        spellings.setdefault(fold(spelling), set()).add(spelling)
    clashing = {one for group in spellings.values() if len(group) > 1 for one in group}
    for name in names if clashing else ():
        for spelling in (name, *_parents(name)):
            if spelling in clashing:
                others = sorted(spellings[fold(spelling)] - {spelling})
                yield TransferRefusal(
                    name, f"this file system cannot tell {spelling} from {others[0]}"
                )
                break


def can_clash(names: Iterable[str]) -> bool:
    """Whether some file system takes two of the names for one."""
    spellings = {spelling for name in names for spelling in (name, *_parents(name))}
    return len({_folded(one) for one in spellings}) < len(spellings)


def folding_of(directory: str) -> Callable[[str], str]:
    """A function that folds a name as the file system of a directory does; found out by trying."""
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=directory) as probe:
        for name in ("a", "\u00e9"):
            os.close(os.open(f"{probe}/{name}", os.O_CREAT | os.O_WRONLY, 0o600))
        ignores_case = os.path.lexists(f"{probe}/A")
        ignores_form = os.path.lexists(f"{probe}/e\u0301")

    def fold(name: str) -> str:
        name = unicodedata.normalize("NFC", name) if ignores_form else name
        return name.casefold() if ignores_case else name

    return fold


def _folded(name: str) -> str:
    return name.casefold() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


def _parents(name: str) -> Iterator[str]:
    end = name.rfind("/")
    while end > 0:
        yield name[:end]
        end = name.rfind("/", 0, end)
