// docs/postgres.md and what docs/reference.md says of a server, run as an operator would paste it, and the figures on
// paper in docs/performance.md, worked out again. The failover has a test of its own.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasOwnMachine, onOwnMachine, SYSLOG } from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/postgres.md'), 'utf8')
const REFERENCE = readFileSync(join(ROOT, 'docs/reference.md'), 'utf8')
const FIGURES = readFileSync(join(ROOT, 'docs/performance.md'), 'utf8')

const sectionOf = (title: string, page = GUIDE): string => {
  const found = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0]
  assert.ok(found, title)
  return found
}

/** As Debian's package does when it is installed. */
const PACKAGE = `${SYSLOG}
V=$(ls /usr/lib/postgresql | sort -n | tail -1)
rm -rf /etc/postgresql/*
mkdir -p /var/lib/postgresql /var/log/postgresql /run/postgresql
chown postgres: /var/lib/postgresql /var/log/postgresql /run/postgresql
ip link set lo up
pg_createcluster $V main -- --no-sync > /dev/null
pg_ctlcluster $V main start
mkdir /mnt/copied && cd /mnt/copied && ln -s "$TRANCHE" tranche
`

test('the five-minute start works by copy and paste, and so does what a monitor asks', async (t) => {
  if (!hasTool(t, 'ip') || !hasTool(t, 'rsyslogd') || !hasOwnMachine(t)) return
  const start = blocksOf(sectionOf('A five-minute start'), 'sh').join('\n')
  const asked = blocksOf(sectionOf('What to ask a server', REFERENCE), 'sql')
  assert.equal(asked.length, 6)
  const [reader = ''] = blocksOf(sectionOf('Rights, passwords and TLS', REFERENCE), 'sql')
  const { code, out, err } = await onOwnMachine(
    t,
    `${PACKAGE}
     ${start.replace('--price-feed median', '--price-feed static:60000')}
     stat -c '%a %U:%G' /etc/tranche/tranche.env
     ls /var/lib/tranche
     psql -q -v ON_ERROR_STOP=1 "$TRANCHE_DB" > /dev/null <<'END'
     ${asked.join('\n')}
END
     echo asked
     runuser -u postgres -- psql -q -v ON_ERROR_STOP=1 -d tranche <<'END'
     ${reader}
     alter role finance password 'reads';
END
     runuser -u tranche -- tranche tick --price 60000
     export TRANCHE_DB=postgres://finance:reads@127.0.0.1/tranche
     for month in $(date -u +%Y-%m) 2025-12; do
       runuser -u tranche -- tranche billing export --month $month --report trades 2> /dev/null | cut -c-11
     done
     psql -Atqc 'select count(*) from tranche.closed_months' "$TRANCHE_DB"
     runuser -u tranche -- tranche partner disable acme 2>&1 | grep -o 'permission denied for table partners' || true`,
  )
  assert.deepEqual([code, err], [0, ''], out)
  assert.match(out, /^sse_test_\w+$/m)
  assert.match(out, /^warning {2}standby_missing {2}server$/m)
  assert.match(
    out,
    /\n0 errors, 1 warning\n640 root:tranche\nbackups\nasked\n(recorded_at\n){2}1\npermission denied for table partners\n$/,
  )
})

test('a file moves to a server by copy and paste, practised once, and is sealed', async (t) => {
  if (!hasTool(t, 'ip') || !hasTool(t, 'rsyslogd') || !hasOwnMachine(t)) return
  const [account = ''] = blocksOf(sectionOf('A five-minute start'), 'sh')
  const moving = blocksOf(sectionOf('Moving from a file'), 'sh')
  assert.equal(moving.length, 2)
  const { code, out, err } = await onOwnMachine(
    t,
    `${PACKAGE}
     ./tranche init --yes --price-feed static:60000 --partner acme --name Acme > /dev/null 2>&1
     ${account}
     ${moving.join('\necho ---\n')}
     export TRANCHE_DB=$(. /etc/tranche/tranche.env; echo "$TRANCHE_DB")
     (${moving[0]}) 2>&1 | sed 's/^/after: /' || true
     grep -c ' backup "' /etc/cron.d/tranche || true
     set -a; . /etc/tranche/tranche.env; set +a
     runuser -u tranche -- tranche partner list
     runuser -u tranche -- tranche tick
     runuser -u tranche -- tranche --db /var/lib/tranche/tranche.db tick 2>&1 || echo "exit $?"`,
  )
  assert.deepEqual([code, err], [0, ''], out)
  const [practised = '', moved = ''] = out.split('---\n')
  assert.match(practised, /copied to postgres:\/\/tranche:\*\*\*@.*verified; .* still takes writes/)
  assert.match(moved, /verified; \/var\/lib\/tranche\/tranche\.db is sealed and takes no more writes$/m)
  assert.match(moved, /standby_missing[\s\S]*\n1\n[\s\S]*acme/)
  assert.match(moved, /^after: error: This database is sealed/m)
  assert.match(moved, /sealed[\s\S]*exit \d+\n$/)
})

/** The rows of the table behind a mark, cell by cell. */
const tableOf = (mark: string): string[][] => {
  const text = FIGURES.split(`<!-- ${mark} -->\n`)[1]?.split('<!-- end -->')[0] ?? assert.fail(mark)
  const rows = text.trim().split('\n').slice(2)
  return rows.map((row) => row.slice(2, -2).split(' | '))
}

test('the figures on paper follow from those that were measured', () => {
  const [parts = [], whole = [], tranche = [], plan = [], window = [], rate = []] = tableOf('sizes').map(
    ([, value = '']) => [...value.matchAll(/[\d,]+/g)].map(([figure]) => Number(figure.replaceAll(',', ''))),
  )
  assert.equal(parts.length, 3)
  const sum = (figures: number[]): number => figures.reduce((a, b) => a + b, 0)
  const [log = 0, [aWindow = 0], [done = 0]] = [whole[0], window, rate]
  const spell = (n: number, digits = 0): string =>
    n.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
  const rows = tableOf('paper')
  assert.equal(rows.length, 5)
  for (const row of rows) {
    const plans = Number(row[0]?.replaceAll(',', ''))
    const perSecond = (plans * 4) / 86_400
    const ofPlans = plans * sum(plan)
    const ofYear = 365 * plans * (4 * sum(tranche) + aWindow)
    assert.deepEqual(row, [
      spell(plans),
      spell(perSecond),
      `${spell((perSecond * log) / 1e6, 1)} MB/s`,
      `${spell((plans * 4 * log) / 1e12, 1)} TB`,
      `${spell(ofPlans / 1e9)} GB`,
      `${spell(ofYear / 1e12)} TB`,
      spell(Math.ceil((3 * perSecond) / done)),
      spell(Math.ceil((ofPlans + ofYear) / 20e12)),
    ])
  }
  for (const said of [
    `T × ${spell(log)}`,
    `P × ${spell(sum(plan))}`,
    `4 × ${spell(sum(tranche))} + ${aWindow}`,
  ])
    assert.ok(FIGURES.includes(`\`${said}`) || FIGURES.includes(said), said)
})

test('the settings of the tables are those of the schema', () => {
  const schema = readFileSync(join(ROOT, 'sql/postgres/0001_start.sql'), 'utf8')
  const said = sectionOf('Settings and vacuum', REFERENCE)
    .split('\n')
    .flatMap((row) => {
      const [, tables = '', setting = ''] = /^\| (.*?) \| `(.*?)` \|/.exec(row) ?? []
      const names =
        tables === 'all three'
          ? ['schedules', 'windows', 'executions']
          : tables.replaceAll('`', '').split(', ')
      return setting ? names.map((name) => `${name} ${setting}`) : []
    })
  const set = [
    ...schema.matchAll(/create table (\w+) \((?:(?!create table)[\s\S])*?\n\) with \((.*)\);/g),
  ].flatMap(([, name, settings = '']) => settings.split(', ').map((setting) => `${name} ${setting}`))
  assert.deepEqual(said.sort(), set.sort())
})
