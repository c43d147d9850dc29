// The units of deploy/ on a Debian that systemd has booted: what init says of them, and what systemd makes of a service
// that cannot start, that hangs, or that is only busy.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { blocksOf } from '../support/code-blocks.ts'
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
    for unit in tranche tranche-tick tranche-check tranche-backup; do
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
    'tranche-check has its guide',
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
    'error: systemctl enable --now tranche.service tranche-tick.timer tranche-check.timer tranche-backup.timer: Job for tranche.service failed',
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

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/operations.md'), 'utf8')

test('the hook of the guide has a renewed certificate shown, and a pair that does not match is refused', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const [hook = '', ...more] = blocksOf(GUIDE.split('### TLS\n')[1]?.split('\n### ')[0] ?? '', 'text')
  assert.deepEqual(more, [])
  const out = await machine.run(`${SHOWN}
    ${INIT} > /dev/null
    LIVE=/etc/letsencrypt/live/api.example.com
    mkdir -p $LIVE; chmod 700 $LIVE
    issue() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days "$1" \
      -addext subjectAltName=DNS:api.example.com -keyout $LIVE/privkey.pem -out $LIVE/fullchain.pem 2> /dev/null; }
    issued() { openssl x509 -noout -fingerprint -sha256 -in $LIVE/fullchain.pem; }
    served() { openssl s_client -connect 127.0.0.1:8443 < /dev/null 2> /dev/null | openssl x509 -noout -fingerprint -sha256; }
    agree() { for ((i = 0; i < 50; i++)); do [ "$(issued)" = "$(served)" ] && echo "$1 is served" && return; sleep 0.1; done; echo "$1 is NOT served"; }
    renew() { RENEWED_LINEAGE=$LIVE /etc/letsencrypt/renewal-hooks/deploy/tranche; }
    findings() { runuser -u tranche -- tranche status --json | grep -o 'certificate_[a-z]*' | sort -u; }
    issue 90
    ${hook}
    agree 'the first'
    runuser -u nobody -- cat /etc/tranche/tls/key.pem 2> /dev/null || echo 'nobody else can read the key'
    runuser -u tranche -- sh -c 'echo > /etc/tranche/tls/key.pem' 2> /dev/null || echo 'the service cannot write it'
    issue 10; renew; agree 'a renewed one'
    set -a; . /etc/tranche/tranche.env; set +a
    findings
    before=$(served)
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $LIVE/privkey.pem 2> /dev/null; renew; sleep 2
    [ "$(served)" = "$before" ] && echo 'the old one is kept'
    issue 2; renew; agree 'the next'
    findings
    issue 90; renew; agree 'a good one'
    findings || echo 'no finding'
    shown tranche NRestarts
    journalctl --unit tranche --output cat | grep SIGHUP | sed 's/.*"level":"\\([a-z]*\\)".*"msg":"\\(.*\\)"}/\\1 \\2/'`)
  assert.deepEqual(out.trim().split('\n'), [
    'the first is served',
    'nobody else can read the key',
    'the service cannot write it',
    'a renewed one is served',
    'certificate_old',
    'the old one is kept',
    'the next is served',
    'certificate_ends',
    'a good one is served',
    'no finding',
    '0',
    'info SIGHUP: there is no certificate to read again',
    'warn SIGHUP: the certificate was read again, and new connections get another one; it ends soon',
    'error SIGHUP: the certificate stays as it was',
    'warn SIGHUP: the certificate was read again, and new connections get another one; it ends soon',
    'info SIGHUP: the certificate was read again, and new connections get another one',
  ])
})

test('the daily check fails when it finds something, and status and the monitor of the ticks hear of it', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const out = await machine.run(`${SHOWN}
    ${INIT} > /dev/null
    systemctl list-timers --no-legend 'tranche-check.timer' | wc -l
    set -a; . /etc/tranche/tranche.env; set +a
    jobs() { runuser -u tranche -- tranche status | grep 'last check' | sed 's/  *[0-9TZ:.-]* ([^)]*)//'; }
    systemctl start tranche-check.service; jobs
    cat > /var/tmp/monitor.sh <<'END'
read -r line; echo "$line" | tr -d '\r' >> /tmp/heard; printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
END
    systemd-run --quiet --unit monitor --property StandardInput=null \
      systemd-socket-activate --accept --inetd --listen 127.0.0.1:7777 bash /var/tmp/monitor.sh
    until grep -q 1E61 /proc/net/tcp; do sleep 0.1; done
    echo TRANCHE_PING_URL=http://127.0.0.1:7777/ticks >> /etc/tranche/tranche.env
    systemctl start tranche-check.service && echo 'well, and silent'
    sqlite3 /var/lib/tranche/tranche.db "update partners set name = 'Other'"
    systemctl start tranche-check.service 2> /dev/null || shown tranche-check Result
    jobs
    grep -v 'GET /ticks H' /tmp/heard
    runuser -u tranche -- tranche status --json | grep -o '"kind": *"check_[a-z]*"'`)
  assert.deepEqual(out.trim().split('\n'), [
    '1',
    'last check: ok',
    'well, and silent',
    'exit-code',
    'last check: 1 error (row_changed)',
    'POST /ticks/fail HTTP/1.1',
    '"kind":"check_failed"',
  ])
})

test('init --undo ends the service and its jobs, leaves nothing to systemd, and keeps the money', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const out = await machine.run(`${SHOWN}
    ours() { find /etc/systemd /var/lib/systemd /run/systemd/system /usr/local /var/cache /etc/cron* -path '*tranche*' | sort; }
    ours > before
    ${INIT} > first
    ${INIT} > second
    grep -E '^  (systemctl|rm|userdel)' second || echo 'a second init says nothing that would end it'
    mkdir /etc/systemd/system/tranche.service.d /etc/systemd/system/tranche-backup.timer.d
    printf '[Service]\nNice=5\n' > /etc/systemd/system/tranche.service.d/mine.conf
    printf '[Timer]\nRandomizedDelaySec=1\n' > /etc/systemd/system/tranche-backup.timer.d/mine.conf
    systemctl daemon-reload; systemctl start tranche-tick.service tranche-backup.service
    ls /var/lib/systemd/timers | grep -c tranche
    runuser -u tranche -- tranche --db /var/lib/tranche/tranche.db backup /var/lib/tranche/backups/tranche-mine.db > rest
    tranche init --undo --dry-run > dry
    shown tranche ActiveState
    tranche init --undo --yes > undone
    sed 's/^would/done /' dry | cmp - undone && echo 'it did what it had shown'
    ours | diff before - && echo 'nothing of it is on the machine'
    systemctl list-units --all 'tranche*' --no-legend --plain; systemctl list-unit-files 'tranche*' --no-legend || true
    ! curl -s http://127.0.0.1:8080/healthz && echo 'nobody answers'
    sed -n '/^left/p' undone
    ls /var/lib/tranche/tranche.db /var/lib/tranche/backups/tranche-mine.db
    # Put back, it goes on with what was left.
    ${INIT} > third
    grep -c ^sse_ third || true
    runuser -u tranche -- tranche --db /var/lib/tranche/tranche.db partner list --json | grep -o '"partner_slug":"acme"'
    shown tranche ActiveState`)
  assert.deepEqual(out.trim().split('\n'), [
    'a second init says nothing that would end it',
    '2',
    'active',
    'it did what it had shown',
    'nothing of it is on the machine',
    'nobody answers',
    'left     /etc/tranche/, the settings',
    'left     /var/lib/tranche/, the database and its backups',
    'left     the user tranche, who owns them',
    '/var/lib/tranche/backups/tranche-mine.db',
    '/var/lib/tranche/tranche.db',
    '0',
    '"partner_slug":"acme"',
    'active',
  ])
})
