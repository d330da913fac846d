"""Callables that hang or end their process; nothing here takes long to import, because processes start again."""

import os
import random
import time


def hangs(table):
    time.sleep(60.0)


def dies(table):
    os.abort()


def ends(table):
    raise SystemExit(3)


def dies_on_three(table):
    if len(table) == 3:
        os.kill(os.getpid(), 9)
    return random.choice([1, 2, 3])
