"""State machines as data: state -> event -> next state."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from localsim.rules.model.cloud_errors import precondition

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


def next_state(
    table: Mapping[State, Mapping[Event, State]], name: str, state: State, event: Event
) -> State:
    """The state after `event`; raises CloudError when the table does not allow it."""
    try:
        return table[state][event]
    except KeyError:
        verb = event.partition(" with ")[0]  # how hard it was asked for is not a part of it
        sentence = f"'{verb}' of '{name}' is not supported while in state {state}."
        raise precondition(sentence) from None
