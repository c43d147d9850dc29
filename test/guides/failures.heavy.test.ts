// Failures of the table in docs/monitoring.md that only a Debian that systemd has booted can have.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bootedMachine } from '../support/machines.ts'
import { hasTool } from '../support/tools.ts'
import { assertRule, failureNamed, firing, isPrinted } from './failures.ts'

const SETUP = `
said() { tranche status --json 2>&1 | grep -o "\\"$1\\": *\\"[^\\"]*\\"" | cut -d '"' -f 4 || true; }
settled() { for ((i = 0; i < 200; i++)); do [ "$(systemctl show tranche --value --property ActiveState)" = "$1" ] && return; sleep 0.1; done; echo "not $1"; }
scraped() { curl -s http://127.0.0.1:9090/metrics | grep "^tranche_$1" || echo 'nothing to scrape'; }
/mnt/tranche init --yes --price-feed static:60000 --partner acme --name Acme > /dev/null
said kind
scraped database_up
`
const FRESH = ['tranche_database_up 1']

test('`serve` has stopped', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const row = failureNamed('`serve` has stopped')
  const out = await machine.run(`${SETUP}
    systemctl stop tranche
    said kind; said mend; scraped database_up
    eval "$(said mend)"; settled active
    said kind; scraped database_up
    timedatectl status | grep -c 'Universal time'`)
  const [mend = '', ...rest] = out.trim().split('\n').slice(2)
  assert.ok(isPrinted(mend, row), out)
  assert.deepEqual(rest, ['nothing to scrape', ...FRESH, '1'])
  assertRule(row)
})

test('a setting is wrong', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const row = failureNamed('a setting is wrong')
  const out = await machine.run(`${SETUP}
    sed -i s/static:60000/nobody/ /etc/tranche/tranche.env
    systemctl restart tranche 2> /dev/null || echo 'it does not start'
    said kind; said mend; said message | grep -o 'journalctl --unit tranche'
    journalctl --unit tranche --output cat | grep -o 'Unknown price feed "nobody"' | head -n 1
    sed -i s/nobody/static:60000/ /etc/tranche/tranche.env
    eval "$(said mend)"; settled active
    said kind; scraped database_up`)
  const [refused, code, mend = '', ...rest] = out.trim().split('\n').slice(1)
  assert.deepEqual([refused, code], ['it does not start', row.code])
  assert.ok(isPrinted(mend, row), out)
  assert.deepEqual(rest, ['journalctl --unit tranche', 'Unknown price feed "nobody"', ...FRESH])
  assertRule(row)
})

test('the file belongs to another user', async (t) => {
  const machine = await bootedMachine(t)
  if (!machine) return
  const row = failureNamed('the file belongs to another user')
  const out = await machine.run(`${SETUP}
    told() { tranche status 2>&1 | grep -o 'chown [^\`]*' | head -n 1 || true; }
    chown root:root /var/lib/tranche/tranche.db
    said code; told
    scraped 'findings{kind="file_closed"'
    eval "$(told)"
    said kind; scraped 'findings{kind="file_closed"'
    stat -c '%U %a' /var/lib/tranche/tranche.db`)
  const [code, mend = '', metric = '', silent = '', access] = out.trim().split('\n').slice(1)
  assert.deepEqual([code, access], [row.code, 'tranche 600'], out)
  assert.ok(isPrinted(mend, row), out)
  if (!hasTool(t, 'promtool')) return
  assert.deepEqual(firing(t, metric, [row.alert]), [row.alert])
  assert.deepEqual(firing(t, silent, [row.alert]), [])
})
