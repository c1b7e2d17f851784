"""`python -m tenuto`: the command."""

from __future__ import annotations

import sys

from tenuto.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
