"""A venue on paper: fills orders out of nothing, at one price, and remembers them in a file as a venue would."""

import os
import random
import sqlite3
import time
import uuid
from decimal import ROUND_DOWN, Decimal

PAPER_FILE = os.environ.get("PAPER_FILE")
PAPER_PRICE = os.environ.get("PAPER_PRICE", "64250.50")
# The shares of the orders that it fills in part, and that fail.
PAPER_PART = float(os.environ.get("PAPER_PART", "0"))
PAPER_FAIL = float(os.environ.get("PAPER_FAIL", "0"))
# How long a call takes, and how long an order stays open.
PAPER_DELAY_MS = int(os.environ.get("PAPER_DELAY_MS", "0"))
PAPER_OPEN_MS = int(os.environ.get("PAPER_OPEN_MS", "0"))


class PaperVenue:
    def __init__(self, environment):
        self.book = sqlite3.connect(PAPER_FILE or f"paper-venue-{environment}.db", isolation_level=None)
        self.book.row_factory = sqlite3.Row
        # asked: how often somebody tried to place an order under the key. Only the first buys.
        self.book.executescript(
            """PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS orders (key TEXT PRIMARY KEY, asked INTEGER NOT NULL DEFAULT 1,
              open_until INTEGER NOT NULL, id TEXT, status TEXT, usd TEXT, btc TEXT, price TEXT, at TEXT,
              reason TEXT)"""
        )

    def find(self, key):
        time.sleep(PAPER_DELAY_MS / 1000)
        row = self.book.execute("SELECT * FROM orders WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        return {**dict(row), "status": "open"} if row["open_until"] > time.time() * 1000 else dict(row)

    def place(self, key, usd):
        time.sleep(PAPER_DELAY_MS / 1000)
        chance = random.random()
        status = "failed" if chance < PAPER_FAIL else "partial" if chance < PAPER_FAIL + PAPER_PART else "filled"
        share = {"failed": 0, "partial": Decimal("0.5"), "filled": 1}[status]
        spent = (Decimal(usd) * share).quantize(Decimal("0.01"))
        bought = (spent / Decimal(PAPER_PRICE)).quantize(Decimal("0.00000001"), ROUND_DOWN)
        self.book.execute(
            "INSERT INTO orders (key, open_until, id, status, usd, btc, price, at, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET asked = asked + 1",
            (
                key,
                int(time.time() * 1000) + PAPER_OPEN_MS,
                str(uuid.uuid4()),
                status,
                f"{spent:f}",  # str() would write 0.00000010 as 1.0E-7
                f"{bought:f}",
                PAPER_PRICE,
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "the venue refused" if status == "failed" else "",
            ),
        )
        return self.find(key)

    def cancel(self, key):
        time.sleep(PAPER_DELAY_MS / 1000)
        self.book.execute(
            "UPDATE orders SET open_until = 0, status = 'failed', reason = 'cancelled'"
            " WHERE key = ? AND open_until > ?",
            (key, int(time.time() * 1000)),
        )


def open_paper_venue(environment):
    return PaperVenue(environment)
