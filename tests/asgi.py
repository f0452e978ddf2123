"""Ask a web application without a server: what it would answer, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Client:
    """A client of one application; an exception that it does not answer for is raised here.

    :param root: the path below which it is mounted, without a slash at its end
    """

    app: Any
    root: str = ""

    def get(self, path: str, params: Mapping[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, params)

    def request(self, method: str, path: str, params: Mapping[str, str] | None = None) -> httpx.Response:
        return asyncio.run(self._ask(method, path, params))

    async def _ask(self, method: str, path: str, params: Mapping[str, str] | None) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, root_path=self.root)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, f"{self.root}{path}", params=params)
