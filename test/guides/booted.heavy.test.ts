// The units of deploy/ on a Debian booted by systemd: what init reports about them, how systemd treats a service that
// cannot start, that hangs, or that is only busy, a whole life of a service by the guides, and the failures of the
// guide that only such a machine can have.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { oldExecutable } from '../releases/old-executable.ts'
import { bootedMachine } from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'
import { failureNamed, firing, isPrinted } from './failures.ts'

const INIT = '/mnt/tranche init --yes --price-feed static:60000 --partner acme --name Acme'
/** Shell functions that read the state of a unit. */
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
    systemctl start tranche-tick.service tranche-check.service tranche-backup.service
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

// A whole life by the guides: installed with the previous release, then with this one, until it is removed.

/** The blocks of a section, in their order, and with `inline` the code in its sentences. */
function pastedFrom(page: string, heading: string, kind: 'sh' | 'text' | 'inline'): string[] {
  const [, section] = new RegExp(`^#+ ${heading}\\n([^]*?)(?=^#+ |(?![^]))`, 'm').exec(readGuide(page)) ?? []
  assert.ok(section, `${page} has ${heading}`)
  const found =
    kind === 'inline'
      ? [
          ...section.matchAll(
            /`((?:systemctl stop|install -m|(?:\/usr\/local\/bin\/)?tranche init)[^`\n]*)`/g,
          ),
        ].map(([, text = '']) => text)
      : blocksOf(section, kind)
  assert.ok(found.length > 0, `${page} ${heading} has a block`)
  return found.map((block) => block.trim())
}
const readGuide = (name: string): string =>
  readFileSync(join(import.meta.dirname, `../../docs/${name}.md`), 'utf8')

/**
 * A partner: `plan ID` adds a plan and stores its start, `again ID` sends it once more, `buy` polls and confirms. Its
 * venue is a file, in which an order is looked up under its key before one is placed. `orders` is its CSV.
 */
const PARTNER = `
API=http://127.0.0.1:8080 KEY_NOW=
call() { local path=$1; shift; curl -sk -H "Authorization: Bearer $KEY_NOW" "$API/partner/v1$path" "$@"; }
user() { call /users -d '{"partner_user_id": "ana", "consent_accepted": true, "consent_version": "1", "consent_timestamp": "2026-01-05T09:30:00Z"}' > /dev/null; }
send() { call /plans -d '{"partner_user_id": "ana", "partner_plan_id": "'"$1"'", "amount_usd": "60.00", "frequency": "daily"'"$2"'}'; }
plan() { send "$1" '' > "/var/tmp/plan-$1"; grep -q active "/var/tmp/plan-$1"; }
field() { sqlite3 :memory: "select json_extract(readfile('$1'), '$.$2')"; }
again() { send "$1" ', "start_date": "'"$(field "/var/tmp/plan-$1" start_date)"'"' | grep -q active; }
tick() { systemctl start tranche-tick.service; }
answers() { for ((i = 0; i < 200; i++)); do curl -skf "$API/healthz" > /dev/null && return; sleep 0.1; done; false; }
touch /var/tmp/venue
buy() {
  call /executions/due > /var/tmp/due
  sqlite3 -separator ' ' :memory: "select value->>'execution_id', value->>'idempotency_key', value->>'amount_usd' from json_each(readfile('/var/tmp/due'))" > /var/tmp/lines
  while read -r id key usd; do
    grep -qF " $key " /var/tmp/venue || echo "order-$(wc -l < /var/tmp/venue) $key $usd" >> /var/tmp/venue
    read -r order key usd < <(grep -F " $key " /var/tmp/venue)
    confirm "$id" "$order" "$usd"
  done < /var/tmp/lines
}
confirm() { call "/executions/$1/confirm" -d '{"partner_order_id": "'"$2"'", "status": "filled", "usd_amount": "'"$3"'", "btc_amount": "'"$(btc "$3")"'", "execution_price": "60000"}' > /var/tmp/answer; }
btc() { sqlite3 :memory: "select printf('%.8f', $1 / 60000.0)"; }
orders() { echo partner_order_id,usd_amount,btc_amount; while read -r order _ usd; do echo "$order,$usd,$(btc "$usd")"; done < /var/tmp/venue; }
known() { runuser -u tranche -- tranche billing export --month "$MONTH" --report trades | cut -d, -f7,8 | tr -d '\\r' | sed 1d | sort; }
`

test('a life by the guides: install, upgrade, rollback, certificate, key, tier, backup, disaster, uninstall', async (t) => {
  const before = await oldExecutable(t)
  if (before === null) return
  const machine = await bootedMachine(t, { '/mnt/before': before })
  if (!machine) return
  // The machine has no internet: a tick of the timer would leave a finding about the median.
  const installing = pastedFrom('operations', 'Installing', 'sh')[0]?.replace(' median ', ' static:60000 ')
  const [settings = ''] = pastedFrom('operations', 'Running a command', 'sh')
  const [keep = '', migrate = ''] = pastedFrom('operations', 'Upgrading', 'sh')
  const [stop = '', install = '', init = ''] = pastedFrom('operations', 'Upgrading', 'inline')
  const [lists = '', restoreOld = ''] = pastedFrom('operations', 'Rolling back', 'text')
  const [initOld = ''] = pastedFrom('operations', 'Rolling back', 'inline').slice(-1)
  const hook = pastedFrom('operations', 'TLS', 'text').join('\n')
  const [leaked = ''] = pastedFrom('levers', 'A key has leaked', 'sh')
  const backups = pastedFrom('operations', 'Backups', 'sh')
  const [drill = ''] = pastedFrom('operations', 'The drill', 'sh')
  const [away = ''] = pastedFrom('disaster', '1\\. Stop everything', 'text')
  const back = pastedFrom('disaster', '2\\. Put the newest sound backup back', 'sh')
  const [compare = ''] = pastedFrom('disaster', '3\\. Compare with each partner', 'sh')
  const [record = ''] = pastedFrom('disaster', '3\\. Compare with each partner', 'text')
  const goOn = pastedFrom('disaster', '4\\. Go on', 'sh')
  const [startAll = '', again = ''] = pastedFrom('disaster', '4\\. Go on', 'text')
  const uninstall = pastedFrom('operations', 'Uninstalling', 'text')
  const upgrade = [keep, stop, install, migrate, init].join('\n')
  const nextSecond = 'sleep 1.1'

  const out = await machine.run(`${SHOWN}${PARTNER}
    say() { echo "== $*"; }
    settled_offsite() { for ((i = 0; i < 100; i++)); do [ "$(shown tranche-offsite ActiveState)" = inactive ] && [ -n "$(shown tranche-offsite ExecMainExitTimestamp)" ] && break; sleep 0.1; done; shown tranche-offsite Result | grep -v success || true; }
    trap '[ $? = 0 ] || tail -n 30 /var/tmp/noise /var/tmp/gone-on' EXIT
    MONTH=$(date -u +%Y-%m)
    cd /var/tmp; mkdir new old; ln -s /mnt/before old/tranche; ln -s /mnt/tranche new/tranche
    # The program before, by the guide.
    cd /var/tmp/old
    { ${installing}
    ${settings}
    } >> /var/tmp/noise 2>&1
    set -a; . /etc/tranche/tranche.env; set +a
    runuser -u tranche -- tranche key create acme --env live > /var/tmp/key 2> /dev/null; KEY_NOW=$(tail -n 1 /var/tmp/key)
    answers
    user; plan first; tick; buy
    known
    cp /usr/local/bin/tranche /var/tmp/is-old; cmp /var/tmp/is-old /mnt/before && say installed
    # Upgrading, and a purchase that only this program records.
    cd /var/tmp/new
    { ${upgrade}
    } > /var/tmp/upgraded 2>&1
    grep -q '^[1-9][0-9]* migrations applied$' /var/tmp/upgraded; grep -x ok /var/tmp/upgraded
    cmp /usr/local/bin/tranche /mnt/tranche && shown tranche ActiveState
    call /me | grep -o '"partner_slug":"acme"'
    plan second; tick; buy
    known; say upgraded
    # Back to the program before.
    { ${lists}
    } > /var/tmp/lists 2>&1
    grep -c ' second ' /var/tmp/lists
    { ${restoreOld}
    } >> /var/tmp/noise 2>&1
    { ${initOld}
    } >> /var/tmp/noise 2>&1
    systemctl list-unit-files 'tranche-*.timer' --no-legend | grep enabled | cut -d' ' -f1
    systemctl disable tranche-check.timer 2> /dev/null
    answers
    known; say 'only what the backup has'
    again second; tick; buy
    known; wc -l < /var/tmp/venue; say 'known again, and nothing bought twice'
    runuser -u tranche -- tranche check
    ${nextSecond}
    { ${upgrade}
    } > /var/tmp/upgraded 2>&1
    answers
    known
    say 'upgraded again'
    # A certificate, and a renewed one.
    LIVE=/etc/letsencrypt/live/api.example.com
    mkdir -p $LIVE; chmod 700 $LIVE
    issue() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 90 \
      -addext subjectAltName=DNS:api.example.com -keyout $LIVE/privkey.pem -out $LIVE/fullchain.pem 2> /dev/null; }
    issued() { openssl x509 -noout -fingerprint -sha256 -in $LIVE/fullchain.pem; }
    served() { openssl s_client -connect 127.0.0.1:8443 < /dev/null 2> /dev/null | openssl x509 -noout -fingerprint -sha256; }
    agree() { for ((i = 0; i < 100; i++)); do [ "$(issued)" = "$(served)" ] && return; sleep 0.1; done; false; }
    issue
    ${hook}
    agree; issue
    RENEWED_LINEAGE=$LIVE /etc/letsencrypt/renewal-hooks/deploy/tranche
    agree; API=https://127.0.0.1:8443
    call /me | grep -o '"partner_slug":"acme"'; say 'a renewed certificate'
    # A key that leaked, and another tier.
    KEY_ID=$(tranche key list acme --json 2> /dev/null | grep -o '"key_id":"key_[0-9a-f]*","partner_slug":"acme","environment":"live"' | cut -d'"' -f4)
    { ${leaked}
    } > /var/tmp/leaked 2>&1
    call /me | grep -o 'Invalid[^"]*' || true
    KEY_NOW=$(tail -n 1 new-key.txt); call /me | grep -o '"partner_slug":"acme"'
    tranche tier set gold --rate-bps 25 --monthly-minimum-usd 100 >> /var/tmp/noise 2>&1
    tranche partner set-tier acme gold >> /var/tmp/noise 2>&1
    runuser -u tranche -- tranche billing show --partner acme | grep -o 'gold (override).*100.00'; say 'another key and tier'
    # Backups, the drill, and a purchase that they do not have.
    set -a; . /etc/tranche/tranche.env; set +a
    { ${backups.join('\n')}
    ${drill}
    } > /var/tmp/backed 2>&1
    ${init} >> /var/tmp/noise 2>&1
    # One a day is kept: that of the unit takes the place of the one by hand.
    snapshot() { runuser -u tranche -- restic snapshots --json | grep -o '"short_id":"[0-9a-f]*"'; }
    BY_HAND=$(snapshot); systemctl start tranche-backup.service; settled_offsite
    [ "$(snapshot)" != "$BY_HAND" ] && snapshot | wc -l
    runuser -u tranche -- restic ls latest 2> /dev/null | grep -c -e '/tranche.env$' -e "/$(basename "$COPY")$"
    sed -i s/static:60000/static:58000/ /etc/tranche/tranche.env; set -a; . /etc/tranche/tranche.env; set +a; tick; buy
    known; say 'backed up, and went on'
    # The disaster.
    { ${away}
    } >> /var/tmp/noise 2>&1
    orders > /var/tmp/orders.csv; ORDERS=/var/tmp/orders.csv
    { ${back.join('\n')}
    } > /var/tmp/restored 2>&1
    grep -q 'It is frozen' /var/tmp/restored && say 'it is frozen'
    known; ${compare} > /var/tmp/compared 2>&1 || say "reconcile exits $?"
    # By the keys of its orders the partner knows which plans they were for.
    while read -r ORDER KEY USD; do
      PLAN=\${KEY%%:*}
      ${record
        .replace('PLAN', '"$PLAN"')
        .replace('ORDER', '"$ORDER"')
        .replace('USD', '"$USD"')
        .replace('BTC', '"$(btc "$USD")"')
        .replace('TIME', '"$(date -u +%FT%TZ)"')} --yes >> /var/tmp/noise 2>&1
    done < <(tail -n 2 /var/tmp/venue)
    ${compare} >> /var/tmp/noise 2>&1 && say 'the books agree'
    { ${goOn.join('\n')}
    } > /var/tmp/gone-on 2>&1
    { ${startAll}
    } >> /var/tmp/noise 2>&1
    answers
    tick; buy; grep -o 'order-. is already recorded' /var/tmp/answer
    for ID in $(tranche execution list --status sent --json 2> /dev/null | grep -o 'exec_[0-9a-f]*'); do
      ${again}
    done >> /var/tmp/noise 2>&1
    wc -l < /var/tmp/venue
    known; tranche check --json 2> /dev/null | grep -o '^{"ok":true'
    tranche check 2> /dev/null | grep -o late_fills || true
    say 'the disaster is over'
    # Uninstalling.
    { ${uninstall.join('\n')}
    } > /var/tmp/undone 2>&1
    ! curl -sk $API/healthz; ls /var/lib/tranche/tranche.db
    find /etc/systemd /etc/cron* /usr/local/bin -name 'tranche*' ! -name '*.before-init*'
    say uninstalled`)
  assert.deepEqual(out.trim().split('\n'), [
    'order-0,filled',
    '== installed',
    'ok',
    'active',
    '"partner_slug":"acme"',
    'order-0,filled',
    'order-1,filled',
    '== upgraded',
    // The plan of the list, and a timer that the old program does not know.
    '1',
    'tranche-backup.timer',
    'tranche-check.timer',
    'tranche-tick.timer',
    'order-0,filled',
    '== only what the backup has',
    'order-0,filled',
    'order-1,filled',
    '2',
    '== known again, and nothing bought twice',
    'ok',
    'order-0,filled',
    'order-1,filled',
    '== upgraded again',
    '"partner_slug":"acme"',
    '== a renewed certificate',
    'Invalid API key.',
    '"partner_slug":"acme"',
    'gold (override)   25        0.05      0.00      0.00   100.00   100.00',
    '== another key and tier',
    '1',
    '2',
    'order-0,filled',
    'order-1,filled',
    'order-2,filled',
    'order-3,filled',
    '== backed up, and went on',
    '== it is frozen',
    'order-0,filled',
    'order-1,filled',
    '== reconcile exits 3',
    '== the books agree',
    'order-3 is already recorded',
    '4',
    'order-0,filled',
    'order-1,filled',
    'order-2,filled',
    'order-3,filled',
    '{"ok":true',
    '== the disaster is over',
    '/var/lib/tranche/tranche.db',
    '/usr/local/bin/tranche-before',
    '== uninstalled',
  ])
})

// Failures that only such a machine can have, one after the other on one.

const FAILING = `${SHOWN}
said() { tranche status --json 2>&1 | grep -o "\\"$1\\": *\\"[^\\"]*\\"" | cut -d '"' -f 4 || true; }
told() { tranche status 2>&1 | grep -o 'chown [^\`]*' | head -n 1 || true; }
scraped() { curl -s http://127.0.0.1:9090/metrics | grep "^tranche_$1" || echo 'nothing to scrape'; }
`
const FRESH = 'tranche_database_up 1'

test('failures that only such a machine can have', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const linesOf = async (script: string) => (await machine.run(FAILING + script)).trim().split('\n')
  assert.deepEqual((await linesOf(`${INIT} > /dev/null; said kind; scraped database_up`)).slice(-1), [FRESH])

  await t.test('`serve` has stopped', async () => {
    const [kind, mend = '', ...rest] = await linesOf(`
      systemctl stop tranche
      said kind; said mend; scraped database_up
      eval "$(said mend)"; settled active
      said kind; scraped database_up
      timedatectl status | grep -c 'Universal time'`)
    const row = failureNamed('`serve` has stopped')
    assert.deepEqual([kind, isPrinted(mend, row)], [row.code, true], mend)
    assert.deepEqual(rest, ['nothing to scrape', FRESH, '1'])
  })

  await t.test('a setting is wrong', async () => {
    const [refused, kind, mend = '', ...rest] = await linesOf(`
      sed -i s/static:60000/nobody/ /etc/tranche/tranche.env
      systemctl restart tranche 2> /dev/null || echo 'it does not start'
      said kind; said mend; said message | grep -o 'journalctl --unit tranche'
      journalctl --unit tranche --output cat | grep -o 'Unknown price feed "nobody"' | head -n 1
      sed -i s/nobody/static:60000/ /etc/tranche/tranche.env
      eval "$(said mend)"; settled active
      said kind; scraped database_up`)
    const row = failureNamed('a setting is wrong')
    assert.deepEqual([refused, kind, isPrinted(mend, row)], ['it does not start', row.code, true], mend)
    assert.deepEqual(rest, ['journalctl --unit tranche', 'Unknown price feed "nobody"', FRESH])
  })

  await t.test('the file belongs to another user', async () => {
    const [code, mend = '', metric = '', silent = '', access] = await linesOf(`
      chown root:root /var/lib/tranche/tranche.db
      said code; told
      scraped 'findings{kind="file_closed"'
      eval "$(told)"
      said kind; scraped 'findings{kind="file_closed"'
      stat -c '%U %a' /var/lib/tranche/tranche.db`)
    const row = failureNamed('the file belongs to another user')
    assert.deepEqual([code, isPrinted(mend, row), access], [row.code, true, 'tranche 600'], mend)
    if (!hasTool(t, 'promtool')) return
    assert.deepEqual(firing(t, metric, row), [row.alert])
    assert.deepEqual(firing(t, silent, row), [])
  })
})
