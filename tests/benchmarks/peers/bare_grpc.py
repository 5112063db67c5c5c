"""A gRPC server that does nothing: the limit of what a server in Python can do here.

`python bare_grpc.py FILE` answers every call with the bytes of the file, and prints its address.
"""

import asyncio
import sys
from pathlib import Path

import grpc


class Same(grpc.GenericRpcHandler):
    """The same answer to every call."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply

    def service(self, handler_call_details):
        async def answer(body, context):
            return self.reply

        return grpc.unary_unary_rpc_method_handler(answer)


async def main(reply: bytes) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Same(reply),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_bytes()))
