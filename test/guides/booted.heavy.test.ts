// The units of deploy/ on a Debian that systemd has booted: what init says of them, and what systemd makes of a service
// that cannot start, that hangs, or that is only busy.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bootedMachine } from '../support/machines.ts'

const INIT = '/mnt/tranche init --yes --price-feed static:60000 --partner acme --name Acme'
/** What there is of a unit. */
const SHOWN = `shown() { systemctl show "$1" --value --property "$2"; }
settled() { for ((i = 0; i < 200; i++)); do [ "$(shown tranche ActiveState)" = "$1" ] && return; sleep 0.1; done; shown tranche ActiveState; }
`

test('init ends when the service answers, and the journal has nothing that is not worth a line', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const out = await machine.run(`${SHOWN}
    ${INIT}
    curl -s http://127.0.0.1:8080/healthz; echo
    shown tranche StatusText
    for unit in tranche tranche-tick tranche-backup; do
      file=$(shown $unit Documentation); [ -s "\${file#file:}" ] && echo "$unit has its guide"
    done
    journalctl --unit tranche | grep 'no partner' || echo 'no complaint'
    systemctl start tranche-tick.service
    sed -i s/static:60000/nobody/ /etc/tranche/tranche.env
    systemctl start tranche-tick.service 2> /dev/null || echo 'the tick failed'
    journalctl --unit tranche-tick.service --output cat`)
  assert.match(
    out,
    /^The service answers at http:\/\/127\.0\.0\.1:8080, and systemd runs the ticks.*journalctl/m,
  )
  const [, after = ''] = out.split(/^sse_test_\w+$/m)
  assert.deepEqual(after.trim().split('\n'), [
    '{"status":"up"}',
    'answers at http://127.0.0.1:8080',
    'tranche has its guide',
    'tranche-tick has its guide',
    'tranche-backup has its guide',
    'no complaint',
    'the tick failed',
    'error: Unknown price feed "nobody": give none, static:PRICE, coinbase, kraken, bitstamp, gemini, median or https://...#/json/pointer.',
    'tranche-tick.service: Main process exited, code=exited, status=2/INVALIDARGUMENT',
    "tranche-tick.service: Failed with result 'exit-code'.",
    'Failed to start tranche-tick.service - tranche, one tick of the scheduler.',
  ])
})

test('a wrong setting is a failed unit, and what may pass is tried again', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const out = await machine.run(`${SHOWN}
    ${INIT} > /dev/null
    tried() { systemctl restart tranche 2> /dev/null || echo "$1 is refused"; sleep 3; shown tranche ActiveState; shown tranche NRestarts; cp settings /etc/tranche/tranche.env; systemctl reset-failed tranche; }
    cp /etc/tranche/tranche.env settings
    sed -i s/static:60000/nobody/ /etc/tranche/tranche.env; tried 'a feed that does not exist'
    echo TRANCHE_TLS_CERT=/etc/none.pem TRANCHE_TLS_KEY=/etc/none.pem | tr ' ' '\\n' >> /etc/tranche/tranche.env
    tried 'a certificate that is not there'
    mv /var/lib/tranche/tranche.db away; tried 'a database that is not there'
    mv away /var/lib/tranche/tranche.db; systemctl stop tranche
    echo TRANCHE_PORT=nothing >> /etc/tranche/tranche.env
    ${INIT} > /dev/null 2> said || grep -o '^error: systemctl enable.*failed' said
    cp settings /etc/tranche/tranche.env
    echo TRANCHE_PORT=9099 >> /etc/tranche/tranche.env
    systemd-run --quiet --unit other /mnt/tranche --db /var/tmp/other.db serve --port 9099
    until curl -sf http://127.0.0.1:9099/healthz > /dev/null; do sleep 0.1; done
    systemctl reset-failed tranche
    systemctl start tranche 2> /dev/null || echo 'a port that is taken is no start'
    systemctl stop other
    settled active && echo 'the next try is one'`)
  assert.deepEqual(out.trim().split('\n'), [
    ...[
      'a feed that does not exist',
      'a certificate that is not there',
      'a database that is not there',
    ].flatMap((what) => [`${what} is refused`, 'failed', '0']),
    'error: systemctl enable --now tranche.service tranche-tick.timer tranche-backup.timer: Job for tranche.service failed',
    'a port that is taken is no start',
    'the next try is one',
  ])
})

test('a service that hangs is started again, and one that is only busy is not', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const out = await machine.run(`${SHOWN}
    ${INIT} > out; KEY=$(tail -n 1 out)
    mkdir /etc/systemd/system/tranche.service.d
    printf '[Service]\nWatchdogSec=8\nTimeoutStopSec=5\n' > /etc/systemd/system/tranche.service.d/soon.conf
    systemctl daemon-reload; systemctl restart tranche
    for i in 1 2 3 4; do timeout 20 sh -c 'while :; do :; done' & done
    flood() { timeout 20 sh -c "while :; do curl -s -o /dev/null -H 'Authorization: Bearer $KEY' 'http://127.0.0.1:8080/partner/v1/executions/pending?n=[1-200]' || true; done" & }
    flood; flood; flood; flood
    sleep 19
    shown tranche NRestarts
    wait
    kill -STOP "$(shown tranche MainPID)"
    for ((i = 0; i < 60; i++)); do [ "$(shown tranche NRestarts)" = 1 ] && break; sleep 0.5; done
    settled active
    shown tranche NRestarts
    curl -s http://127.0.0.1:8080/healthz; echo
    journalctl --unit tranche --output cat --grep 'Watchdog timeout'`)
  assert.deepEqual(out.trim().split('\n'), [
    '0',
    '1',
    '{"status":"up"}',
    'tranche.service: Watchdog timeout (limit 8s)!',
  ])
})
