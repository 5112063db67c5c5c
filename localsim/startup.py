"""What makes the imports of a simulator quick: entry points import everything else inside of it."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import modules in the block without what would take as long as the modules themselves.

    No garbage is collected meanwhile, nor will what was imported ever be looked through. OpenSSL
    finds no certificates of authorities: aiohttp reads all of this machine's, twice, and localsim
    asks nobody over TLS.
    """
    given = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = os.devnull
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        del os.environ["SSL_CERT_FILE"]
        if given is not None:
            os.environ["SSL_CERT_FILE"] = given
