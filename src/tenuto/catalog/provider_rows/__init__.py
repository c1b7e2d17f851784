"""Provider rows. A provider that uses a known dialect is one `Provider(...)` in a module of this package.

A row has the URL, how requests are authenticated, the dialect, and the switches by which the provider differs from
that dialect; `Provider` describes the fields. `source` uses the words of `tenuto.catalog.model_rows`. `notes` say
where a row differs from the specification because the provider has changed. `hosts_others` and `as_of` are set here.
"""

from msgspec.structs import replace

from tenuto.catalog.provider_rows import hosts, makers, sim

AS_OF = "2026-11-15"
"""The day (ISO) on which the rows were last compared with their sources."""
ROWS = (
    *(replace(row, as_of=AS_OF) for row in makers.ROWS),
    *(replace(row, as_of=AS_OF, hosts_others=True) for row in (*hosts.ROWS, sim.ROW)),
)
