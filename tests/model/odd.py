"""An upstream that does as it should for all requests but odd ones, for the tests beside this file."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

OK = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


def said(code, body, media="application/json", **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    rows = {"content-type": media, "content-length": len(data), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in rows.items())
    return [f"HTTP/1.1 {code} X\r\n{head}\r\n".encode() + data]


def error(code, message="scripted"):
    return said(code, {"error": {"message": message, "code": "scripted"}})


HANG = [60.0]
CUT = [b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{"cho', None]
HALF = b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": null}]}\n\n'
CUT_STREAM = [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n" + HALF, None]


class Picky:
    """`answer(path, body)` is how a request is answered: parts to write, seconds to wait, None to hang up."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.heads = []

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1].decode()
                rows = head.lower().split(b"\r\n")
                size = next((int(row[15:]) for row in rows if row.startswith(b"content-length:")), 0)
                body = json.loads(await reader.readexactly(size) or b"{}")
                self.asked.append((path, body))
                pairs = (row.split(b": ", 1) for row in rows[1:] if b": " in row)
                self.heads.append({name.decode(): value.decode() for name, value in pairs})
                for part in self.answer(path, body):
                    if part is None:
                        return
                    if isinstance(part, bytes):
                        writer.write(part)
                        await writer.drain()
                    else:
                        await asyncio.sleep(part)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def count(self, what):
        return sum(what(path, body) for path, body in self.asked)


@asynccontextmanager
async def picky(answer):
    """(the server, what `opened` takes for a model)."""
    server = Picky(answer)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        server.root = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield server, SimpleNamespace(url=f"{server.root}/v1")
