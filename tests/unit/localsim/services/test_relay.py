"""A relay loses nothing that a client sends before the relay has reached the server."""

import asyncio
from unittest import mock

import pytest

from localsim.services.net.relay import RelayEnd


def transport() -> mock.Mock:
    made = mock.Mock(spec=asyncio.Transport)
    made.is_closing.return_value = False
    made.can_write_eof.return_value = True
    return made


@pytest.mark.parametrize("ends", [False, True])
def test_what_comes_before_both_ends_exist_is_sent_on_first(*, ends: bool):
    client, from_client, to_server = RelayEnd(bytes.upper), transport(), transport()
    client.connection_made(from_client)
    client.data_received(b"early ")
    client.data_received(b"bytes, ")
    if ends:
        client.eof_received()
    client.peer.connection_made(to_server)
    assert to_server.write.mock_calls == to_server.write_eof.mock_calls == []
    client.begin()
    if not ends:
        client.data_received(b"late")
    sent = b"".join(each.args[0] for each in to_server.write.mock_calls)
    assert sent == (b"EARLY BYTES, " if ends else b"EARLY BYTES, LATE")
    assert to_server.write_eof.called is ends
    from_client.resume_reading.assert_called_once_with()
