"""asyncssh and nothing else: `bare_ssh.py SOCKS_PORT KEY_FILE USER ADDRESS...`.

Connects to every address at once, runs `echo hi` on each, and prints the seconds from the first
connect to the last answer. Host keys are not looked at.
"""

import asyncio
import socket
import struct
import sys
import time

import asyncssh


async def main(port: int, key: str, user: str, addresses: list[str]) -> None:
    client_key = asyncssh.read_private_key(key)

    async def one(address: str) -> None:
        connection = await dial(port, address)
        async with asyncssh.connect(
            sock=connection,
            host=address,
            username=user,
            client_keys=[client_key],
            known_hosts=None,
            agent_path=None,
            config=None,
        ) as worker:
            done = await worker.run("echo hi", check=True)
        if done.stdout != "hi\n":
            raise ValueError(done.stdout)

    began = time.perf_counter()
    await asyncio.gather(*map(one, addresses))
    print(time.perf_counter() - began)


async def dial(port: int, address: str) -> socket.socket:
    """SOCKS5 with everything said at once."""
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.settimeout(0)
    await loop.sock_connect(connection, ("127.0.0.1", port))
    target = socket.inet_aton(address) + struct.pack("!H", 22)
    await loop.sock_sendall(connection, b"\x05\x01\x00\x05\x01\x00\x01" + target)
    left = 12
    while left:
        left -= len(await loop.sock_recv(connection, left))
    return connection


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
