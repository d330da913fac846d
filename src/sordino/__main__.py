"""`python -m sordino`."""

from sordino.cli import program

# Worker processes of an audit import this file, under another name.
if __name__ == "__main__":
    program()
