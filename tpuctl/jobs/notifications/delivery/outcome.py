"""How a message can fail to arrive: for now, or for good."""


class NotDeliveredError(Exception):
    """A target did not take a message; str() says why, without a secret.

    `pause_s`: how long the target asks to be left alone.
    """

    def __init__(self, reason: str, *, is_final: bool = False, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.is_final = is_final
        """It will not take it later either."""
        self.pause_s = pause_s
