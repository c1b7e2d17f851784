"""Objects that a `with` statement closes."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from typing import Self


class Closable:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class AsyncClosable:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        raise NotImplementedError
