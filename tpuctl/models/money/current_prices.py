"""The prices of the process: those of the catalog, until a command says what its context pays."""

from collections.abc import Callable

from tpuctl.models.money.price_book import PriceBook


class _CurrentPrices:
    """A book that is made when it is first asked for."""

    def __init__(self) -> None:
        self.load: Callable[[], PriceBook] = PriceBook
        self.book: PriceBook | None = None


_current = _CurrentPrices()


def use_prices(load: Callable[[], PriceBook]) -> None:
    """Let `load` make the book of all prices from now on, when one is first asked for."""
    _current.load, _current.book = load, None


def price_book() -> PriceBook:
    """The book of all prices."""
    if _current.book is None:
        _current.book = _current.load()
    return _current.book
