"""`python -m sordino`."""

import sys

from sordino.cli import main

sys.exit(main())
