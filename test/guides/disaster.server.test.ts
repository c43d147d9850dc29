// docs/disaster.md in its order, as root pastes it on four mornings: a backup of a file, a snapshot of one, a server
// recovered to a point in time, and a new machine.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasOwnMachine, IN_HOME, onOwnMachine, SERVER, SYSLOG } from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'

const read = (page: string): string =>
  readFileSync(join(import.meta.dirname, `../../docs/${page}.md`), 'utf8')
const [freeze = '', restore = '', again = '', compare = '', ...goOn] = blocksOf(read('disaster'), 'sh')
const [newMachine = ''] = blocksOf(read('disaster'), 'bash')
const start = blocksOf(read('disaster'), 'text').find((block) => block.includes('init')) ?? ''
const offsite =
  blocksOf(read('operations'), 'sh').find((block) => block.includes('restic init')) ?? assert.fail()
const [server = ''] = blocksOf(read('postgres'), 'sh')

/** The copy has a partner; the second one comes later. Nothing runs the jobs of cron here but the script itself. */
const BEGIN = `
./tranche init --yes --price-feed static:60000 --partner acme --name Acme --env live > /dev/null
set -a; . /etc/tranche/tranche.env; set +a
later() {
  runuser -u tranche -- tranche partner create later --name Later > /dev/null
  rm /etc/cron.d/tranche
}
state() {
  tranche tick --json | grep -oE '"skipped":true|"kind":"[a-z]*"' || echo 'a tick'
  tranche partner list --json | grep -oE '"partner_slug":"[a-z]*"'
}
`
const GO_ON = `
{ ${again} } >> /mnt/said
state
test ! -e /etc/cron.d/tranche
export MONTH=$(date -u +%Y-%m) ORDERS=/mnt/orders.csv
echo partner_order_id,usd_amount,btc_amount > $ORDERS
{ ${compare} ${goOn.join('\n')} ${start} } >> /mnt/said
state
ls /etc/cron.d
`

type Way = { kind: string; tools: readonly Parameters<typeof hasTool>[1][]; script: string }
const WAYS: Record<string, Way> = {
  'a backup': {
    kind: 'restored',
    tools: [],
    script: `COPY=/var/lib/tranche/backups/copy.db; runuser -u tranche -- tranche backup $COPY > /dev/null
      later
      { ${freeze} ${restore} } >> /mnt/said`,
  },
  'a snapshot': {
    kind: 'operator',
    tools: [],
    script: `cp -a /var/lib/tranche /mnt/snapshot
      later
      { ${freeze} } >> /mnt/said
      rm -r /var/lib/tranche/*; cp -a /mnt/snapshot/* /var/lib/tranche`,
  },
  'a new machine': {
    kind: 'restored',
    tools: ['restic'],
    script: `${offsite}
      later
      cp /etc/tranche/restic-password /mnt/password
      tranche init --undo --yes > /dev/null
      rm -r /etc/tranche /var/lib/tranche; userdel tranche; unset TRANCHE_DB
      export RESTIC_REPOSITORY=/mnt/offsite RESTIC_PASSWORD_FILE=/mnt/password RESTIC_CACHE_DIR=/mnt/cache
      { ${newMachine} } >> /mnt/said
      test ! -e /var/lib/tranche/tranche.db
      { ${restore} } >> /mnt/said`,
  },
  'a point in time': {
    kind: 'timeline',
    tools: ['ip'],
    script: `D=/var/lib/postgresql/$V/main
      (cd / && runuser -u postgres -- pg_basebackup -D /var/lib/postgresql/base)
      later
      { ${freeze} } >> /mnt/said
      pg_ctlcluster $V main stop
      rm -r $D; mv /var/lib/postgresql/base $D
      printf '%s\\n' "restore_command = 'false'" "recovery_target = 'immediate'" "recovery_target_action = 'promote'" >> $D/postgresql.auto.conf
      runuser -u postgres -- touch $D/recovery.signal
      pg_ctlcluster $V main start
      while [ "$(cd /; runuser -u postgres -- psql -Atc 'select pg_is_in_recovery()')" = t ]; do sleep 0.1; done`,
  },
}

for (const [name, { kind, tools, script }] of Object.entries(WAYS))
  test(`the order of the guide puts back ${name}, and nothing runs before its end`, async (t) => {
    if (!hasOwnMachine(t) || !(['rsyslogd', ...tools] as const).every((tool) => hasTool(t, tool))) return
    const database = name === 'a point in time' ? `${SERVER}\n{ ${server} } > /dev/null` : ''
    const { code, out, err } = await onOwnMachine(
      t,
      [SYSLOG, database, IN_HOME, BEGIN, script, GO_ON].join('\n'),
    )
    assert.equal(code, 0, out + err)
    assert.deepEqual(out.trim().split('\n'), [
      '"skipped":true',
      `"kind":"${kind}"`,
      '"partner_slug":"acme"',
      'a tick',
      '"partner_slug":"acme"',
      'tranche',
    ])
  })
