"""The providers' rows: where each is, how it is paid, and in what it differs from its dialect's common form.

`source` uses the words of `tenuto.catalog.model_rows`. `notes` say where a row departs from the specification because the
provider has moved on.
"""

from __future__ import annotations

from tenuto.catalog.provider_rows import hosts, makers, sim

__all__ = ["ROWS"]

ROWS = (*makers.ROWS, *hosts.ROWS, *sim.ROWS)
