"""Draw the picture of a report on the front page, light and dark: `python docs/report_picture.py report.html`.

The page is the one that the commands of the README write. Needs Chromium and Pillow.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.page.browser import browser, chromium

STATIC = Path(__file__).with_name("_static")
WIDTH, HEIGHT, COLOURS = 1200, 1225, 128


def main() -> None:
    """Open the page in both colour schemes and keep what the first screen shows, in few colours."""
    program = chromium()
    if program is None:
        raise SystemExit("Install Chromium to draw the picture.")
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as profile, browser(program, Path(profile)) as tab:
        tab.call("Emulation.setScrollbarsHidden", hidden=True)
        for name, dark in (("report.png", False), ("report-dark.png", True)):
            tab.open(page, WIDTH, HEIGHT, dark=dark)
            shown = Image.open(io.BytesIO(tab.screenshot(whole=False))).convert("RGB")
            shown.quantize(COLOURS, dither=Image.Dither.NONE).save(STATIC / name, optimize=True)


if __name__ == "__main__":
    main()
