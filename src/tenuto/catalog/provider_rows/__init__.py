"""Provider rows. A provider that uses a known dialect is one `Provider(...)` in a module of this package.

A row has the URL, how requests are authenticated, the dialect, and the switches by which the provider differs from
that dialect; `Provider` describes the fields. `source` uses the words of `tenuto.catalog.model_rows`. `notes` say
where a row differs from the specification because the provider has changed.
"""

from __future__ import annotations

from tenuto.catalog.provider_rows import hosts, makers, sim

ROWS = (*makers.ROWS, *hosts.ROWS, *sim.ROWS)
