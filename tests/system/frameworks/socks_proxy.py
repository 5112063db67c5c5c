"""OpenSSH's ProxyCommand through a SOCKS5 proxy: `socks_proxy.py PROXY_PORT HOST PORT`."""

import ipaddress
import os
import socket
import sys
import threading


def main(proxy_port, host, port):
    with socket.create_connection(("127.0.0.1", int(proxy_port))) as connection:
        connection.sendall(b"\x05\x01\x00")
        received(connection, 2)
        address = ipaddress.IPv4Address(host).packed
        connection.sendall(b"\x05\x01\x00\x01" + address + int(port).to_bytes(2, "big"))
        code = received(connection, 10)[1]
        if code:
            return f"SOCKS5 reply {code}"
        threading.Thread(target=copy_in, args=(connection,), daemon=True).start()
        while block := connection.recv(65536):
            os.write(1, block)
    return None


def copy_in(connection):
    while block := os.read(0, 65536):
        connection.sendall(block)
    connection.shutdown(socket.SHUT_WR)


def received(connection, count):
    found = b""
    while len(found) < count:
        block = connection.recv(count - len(found))
        if not block:
            raise SystemExit("the proxy hung up")
        found += block
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
