"""Print the page `docs/providers.md`."""

import sys

from tenuto.catalog.page import render

if __name__ == "__main__":
    sys.stdout.write(render())
