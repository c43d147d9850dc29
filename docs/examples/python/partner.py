"""A partner of tranche: polls for instructions, buys each of them once, and confirms it until that is recorded.

It may be killed at any moment and started again. Each step is in the journal, on disk, before the next is taken, and
the venue knows every order by the key it was placed under. To go live, replace the paper venue with your own.
It needs Python 3.9 or later, and nothing else.
"""

import json
import os
import random
import sqlite3
import sys
import threading
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from paper_venue import open_paper_venue
from wake_up import listen_for_wake_ups

TRANCHE_URL = os.environ.get("TRANCHE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("KEY", "")
ENVIRONMENT = "live" if KEY.startswith("sse_live_") else "test"
if not KEY.startswith(f"sse_{ENVIRONMENT}_"):
    sys.exit("KEY has to be an API key, sse_test_... or sse_live_...")
# Each environment has a journal of its own.
JOURNAL = os.environ.get("JOURNAL", f"journal-{ENVIRONMENT}.db")
WEBHOOK_SECRET = os.environ.get("WEBHOOK_SECRET")
WEBHOOK_PORT = int(os.environ.get("WEBHOOK_PORT", "9000"))
# A webhook only shortens this wait.
POLL_S = 60
WAITS_S = [1, 2, 5, 10, 30, 60]
TIMEOUT_S = 30
# An instruction is leased for five minutes. What was not ordered in four is left for its next delivery.
ORDER_WITHIN_S = 240
# How long an order may stay open, and how often the venue is asked about it.
OPEN_S = 60
CHECK_S = 1
# Statuses that are about the report, whatever their code.
REFUSING = (409, 422)
# How often the service is asked whether its wake-ups arrive.
WEBHOOK_CHECK_S = 3600

# One process works on a journal at a time. The lock ends with its process, however that ends.
lock = sqlite3.connect(JOURNAL + ".lock", timeout=0, isolation_level=None)
try:
    lock.execute("BEGIN EXCLUSIVE")
except sqlite3.OperationalError as error:
    sys.exit(f"{JOURNAL} is in use by another process, or cannot be locked: {error}")

# A line is a purchase. order_key: what its order is placed under. report: what to confirm, once that is known. answer:
# "recorded", or the refusal.
journal = sqlite3.connect(JOURNAL, isolation_level=None)
journal.row_factory = sqlite3.Row
journal.executescript(
    """PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS purchases (execution_id TEXT PRIMARY KEY, order_key TEXT NOT NULL,
      amount_usd TEXT NOT NULL, report TEXT, answer TEXT)"""
)
if journal.execute("SELECT 1 FROM purchases WHERE order_key NOT GLOB ?", (f"{ENVIRONMENT}:*",)).fetchone():
    sys.exit(f"{JOURNAL} has purchases of another environment than {ENVIRONMENT}")

# The venue has three methods, and an order is a dict with id, status (open, filled, partial or failed), usd, btc,
# price, at and reason; its amounts are decimal strings, never numbers.
#   find(key) answers the order that was placed under this key, or None.
#   place(key, usd) buys for at most this much; under a key it has seen before, the venue must buy nothing more. An
#     order that the venue refuses is failed. It raises when nobody knows whether the order arrived.
#   cancel(key) ends an order that is still open.
venue = open_paper_venue(ENVIRONMENT)


class NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


opener = build_opener(NoRedirects)


def tell(text):
    print(text, file=sys.stderr, flush=True)


def ask(method, path, body):
    """Calls once: status, headers and body of the answer."""
    request = Request(
        f"{TRANCHE_URL}/partner/v1{path}",
        None if body is None else body.encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers, error.read().decode()


def call(method, path, body=None):
    """Calls the service until it gives an answer that will not change by asking again.

    That is a success, or a refusal with a code. Returns status, code, the answer as text, headers and body.
    """
    attempt = 0
    while True:
        why, asked = "", 0
        try:
            status, headers, text = ask(method, path, body)
            code = headers.get("X-Error-Code")
            why = " ".join(filter(None, (str(status), code, text)))[:300]
            asked = int(headers.get("Retry-After") or 0)
            # A refusal without a code comes from something in between, and so does what is not JSON.
            if status < 300 or (code and status < 500 and status not in (408, 429)):
                return status, code, why, headers, json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            why += f" {error!r}"
        wait = WAITS_S[min(attempt, len(WAITS_S) - 1)]
        seconds = max(wait * random.uniform(0.5, 1), min(asked, 3600))
        tell(f"{method} {path}: {why.strip()}; again in {seconds:.2f} s")
        time.sleep(seconds)
        attempt += 1


def order_key(instruction):
    """The same plan id in test and live may have the same idempotency key, and a venue may have one book for both."""
    return f"{ENVIRONMENT}:{instruction['idempotency_key']}"


def buy(purchase, may_order):
    """What was bought, and so what to confirm; None while there is no order, or no word of it."""
    key = purchase["order_key"]
    order = venue.find(key)
    if not order and may_order:
        order = venue.place(key, purchase["amount_usd"])
    waited = 0
    while order and order["status"] == "open":
        if waited >= OPEN_S:
            venue.cancel(key)
        time.sleep(CHECK_S)
        waited += CHECK_S
        order = venue.find(key)
    if not order:
        return None
    report = {"partner_order_id": order["id"], "status": order["status"]}
    if order["status"] == "failed":
        report["failure_reason"] = order["reason"]
    else:
        report.update(usd_amount=order["usd"], btc_amount=order["btc"])
        report.update(execution_price=order["price"], executed_at=order["at"])
    text = json.dumps(report)
    journal.execute("UPDATE purchases SET report = ? WHERE execution_id = ?", (text, purchase["execution_id"]))
    return text


def confirm(execution_id, report):
    status, code, why, _, body = call("POST", f"/executions/{quote(execution_id, safe='')}/confirm", report)
    answer = "UPDATE purchases SET answer = ? WHERE execution_id = ?"
    if body.get("ok") is True:
        journal.execute(answer, ("recorded", execution_id))
        print(f"{execution_id} recorded {report}", flush=True)
    elif code == "execution_pending":
        # The service was restored from a backup: a poll will hand it out again, and then it is confirmed.
        tell(f"{execution_id} waits for its next delivery: {why}")
    elif status in REFUSING or code in ("amount_over_reservation", "execution_not_found"):
        journal.execute(answer, (why, execution_id))
        tell(f"{execution_id} is refused, and a person has to decide: {why}; sent was {report}")
    else:
        # Anything else, such as a revoked key, would meet the next report too.
        sys.exit(f"confirm {execution_id}: {why}")


def finish(purchase, may_order):
    """Takes a purchase from wherever it is to its confirmation. Only what was just delivered may be ordered."""
    report = purchase["report"]
    if report is None:
        try:
            report = buy(purchase, may_order)
        except Exception as error:  # whatever your venue raises
            tell(f"venue: {error!r}")
    if report is not None:
        confirm(purchase["execution_id"], report)


def poll():
    """Works off what is due, and then what an earlier round or process left unanswered."""
    remaining = 1
    while remaining > 0:
        order_until = time.monotonic() + ORDER_WITHIN_S
        status, _, why, headers, due = call("GET", "/executions/due")
        if status != 200:
            sys.exit(f"poll: {why}")
        for instruction in due:
            if time.monotonic() > order_until:
                break
            journal.execute(
                "INSERT INTO purchases (execution_id, order_key, amount_usd) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (instruction["execution_id"], order_key(instruction), instruction["amount_usd"]),
            )
            find = "SELECT * FROM purchases WHERE execution_id = ?"
            purchase = journal.execute(find, (instruction["execution_id"],)).fetchone()
            # What was recorded is confirmed once more if it comes again: the service was restored from a backup.
            if purchase["answer"] in (None, "recorded"):
                finish(purchase, True)
        remaining = int(headers["X-Due-Remaining"])
    for purchase in journal.execute("SELECT * FROM purchases WHERE answer IS NULL").fetchall():
        finish(purchase, False)


def check_webhook():
    """Whether wake-ups arrive only the service knows: it stops after ten failures in a row."""
    status, _, why, _, webhook = call("GET", "/webhooks")
    if status != 200:
        sys.exit(f"webhook: {why}")
    if webhook["status"] == "active":
        return
    what = "none is registered"
    if webhook["url"]:
        what = f"{webhook['url']} is paused; its last status was {webhook['last_status_code']}"
    tell(f"webhook: {what}. Register it with POST /webhooks. Until then only polls find what is due.")


woken = threading.Event()
check_at = 0 if WEBHOOK_SECRET else float("inf")
if WEBHOOK_SECRET:
    try:
        listen_for_wake_ups(WEBHOOK_PORT, WEBHOOK_SECRET, woken.set)
    except OSError as error:
        sys.exit(f"webhook: {error}")
while True:
    woken.clear()
    poll()
    if time.monotonic() >= check_at:
        check_at = time.monotonic() + WEBHOOK_CHECK_S
        check_webhook()
    woken.wait(POLL_S)
