"""The way to an upstream: straight over a connection of our own, or through a general client where a proxy is set."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2

from harness.model.faults import Fault
from harness.model.hush import quietly
from harness.policy.schema import ModelPolicy

_LOCAL = {"127.0.0.1", "localhost", "::1"}


class Answer(Protocol):
    """An answer whose head has come. Names of headers are lower-case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def part(self, within_s: float) -> bytes:
        """What came next of the body; nothing at its end. Raises Fault, also when nothing comes in `within_s`."""
        ...


class Upstream(Protocol):
    """Where requests go. One is shared by all calls of a route."""

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, connect_s: float, first_byte_s: float
    ) -> AbstractAsyncContextManager[Answer]:
        """Send a request and wait for the head of its answer. Leaving before the end drops the rest. Raises Fault."""
        ...

    async def aclose(self) -> None:
        """End every connection."""
        ...


class General:
    """Through httpx2, which knows proxies, credentials in URLs and names of hosts in any script."""

    def __init__(self, policy: ModelPolicy) -> None:
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=policy.connect_s, pool=policy.first_byte_s),
            # slots bound the calls; what is asked besides must not have to wait for one that hangs
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=policy.concurrency),
            trust_env=not _local(policy.base_url),
            verify=policy.base_url.startswith("https"),
            follow_redirects=False,
        )

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, connect_s: float, first_byte_s: float
    ) -> AsyncGenerator[Answer]:
        try:
            built = self._client.build_request("POST", url, content=body, headers=headers)
            with quietly(), anyio.fail_after(first_byte_s):
                response = await self._client.send(built, stream=True)
        except TimeoutError:
            raise Fault(f"no answer within {first_byte_s:g} s") from None
        except httpx2.ConnectTimeout:
            raise Fault(f"no connection within {connect_s:g} s", reached=False) from None
        except (httpx2.ConnectError, httpx2.UnsupportedProtocol, httpx2.PoolTimeout) as error:
            raise Fault(f"cannot connect: {_said(error)}", reached=False) from None
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise Fault(f"no request can be made: {_said(error)}", passing=False, final=True, reached=False) from None
        except httpx2.HTTPError as error:
            raise _broke(error) from None
        try:
            yield _Response(response)
        finally:
            with quietly(), anyio.CancelScope(shield=True), anyio.move_on_after(1.0):
                await response.aclose()

    async def aclose(self) -> None:
        with quietly():
            await self._client.aclose()


class _Response:
    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._parts: AsyncIterator[bytes] = response.aiter_bytes()

    async def part(self, within_s: float) -> bytes:
        try:
            with quietly(), anyio.fail_after(within_s):
                while (part := await anext(self._parts, None)) is not None:
                    if part:
                        return part
                return b""
        except TimeoutError:
            raise Fault(f"the answer stopped within {within_s:g} s") from None
        except httpx2.HTTPError as error:
            raise _broke(error) from None


def upstream(policy: ModelPolicy) -> Upstream:
    """The lightest way that reaches `policy.base_url`."""
    if not _straight(policy.base_url):
        return General(policy)
    from harness.model.direct import Direct  # noqa: PLC0415 - its parser may be missing

    return Direct(policy.base_url)


def _straight(base_url: str) -> bool:
    """Whether nothing but a socket (and TLS) is needed to reach it."""
    if importlib.util.find_spec("httptools") is None:
        return False
    parts = urlsplit(base_url)
    if not _plain(parts):
        return False
    if _local(base_url):
        return True  # a proxy for the internet is none for loopback
    proxies = getproxies()
    return not (parts.scheme in proxies or "all" in proxies) or bool(proxy_bypass(parts.netloc))


def _plain(parts: SplitResult) -> bool:
    try:
        port = parts.port
    except ValueError:
        return False
    return port != 0 and bool(parts.hostname) and parts.netloc.isascii() and "@" not in parts.netloc


def _local(base_url: str) -> bool:
    return urlsplit(base_url).hostname in _LOCAL


def _broke(error: httpx2.HTTPError) -> Fault:
    return Fault(f"the connection broke: {_said(error)}")


def _said(error: Exception) -> str:
    words = str(error).partition("bytearray(")[0]  # then comes what the upstream sent, and nobody knows what that is
    return words.strip(" :")[:200] or type(error).__name__
