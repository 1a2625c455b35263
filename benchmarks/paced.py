"""A model that answers as fast as a real one: first token after FIRST_S, TOKENS in all, NEXT_S apart, by the clock.

    python benchmarks/paced.py FIRST_S NEXT_S TOKENS      # prints its base URL

For benchmarks: it costs as little as can be, so that it is not what is measured.
"""

import asyncio
import json
import sys
import time

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ABOUT = {"id": "paced-1", "object": "chat.completion.chunk", "created": 0, "model": "m"}


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(body):
    return chunk(b"data: " + json.dumps({**ABOUT, **body}).encode() + b"\n\n")


def choice(delta, reason=None):
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def script(tokens):
    """What is written at each beat; the end comes with the last token."""
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    end = choice({}, "stop") + event({"choices": [], "usage": usage}) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    words = [choice({"role": "assistant", "content": "word"})] + [choice({"content": " word"})] * (tokens - 1)
    return [HEAD + words[0], *words[1:-1], words[-1] + end]


async def main(first_s, next_s, tokens):
    beats = script(tokens)

    async def serve(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, asked, rest = head.partition(b"content-length:")
                if not asked:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                await reader.readexactly(int(rest.split(b"\r\n")[0]))
                due = time.monotonic() + first_s
                for beat in beats:
                    await asyncio.sleep(due - time.monotonic())
                    writer.write(beat)
                    due += next_s
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
