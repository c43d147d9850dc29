// docs/postgres.md and the server parts of docs/reference.md, run as an operator would paste them.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  hasOwnMachine,
  IN_HOME,
  type Machine,
  outOfOwnMachine,
  SERVER,
  SYSLOG,
  twoMachines,
} from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'
import { until as untilWithin } from '../support/within.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/postgres.md'), 'utf8')
const REFERENCE = readFileSync(join(ROOT, 'docs/reference.md'), 'utf8')

const sectionOf = (title: string, page = GUIDE): string => {
  const found = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0]
  assert.ok(found, title)
  return found
}

test('the five-minute start works by copy and paste, and so does what a monitor asks', async (t) => {
  if (!hasTool(t, 'ip') || !hasTool(t, 'rsyslogd') || !hasOwnMachine(t)) return
  const start = blocksOf(sectionOf('A five-minute start'), 'sh').join('\n')
  const asked = blocksOf(sectionOf('What to ask a server', REFERENCE), 'sql')
  assert.equal(asked.length, 6)
  const [reader = ''] = blocksOf(sectionOf('Rights, passwords and TLS', REFERENCE), 'sql')
  const out = await outOfOwnMachine(
    t,
    `${SYSLOG}${SERVER}${IN_HOME}
     ${start.replace('--price-feed median', '--price-feed static:60000')}
     runuser -u tranche -- tranche tick
     runuser -u tranche -- tranche check --strict
     stat -c '%a %U:%G' /etc/tranche/tranche.env
     ls /var/lib/tranche
     cd /
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
  assert.match(out, /^sse_test_\w+$/m)
  assert.match(
    out,
    /\nok\nok\n640 root:tranche\nbackups\nasked\n(recorded_at\n){2}1\npermission denied for table partners\n$/,
  )
})

test('a file moves to a server by copy and paste, practised once, and refuses writes from then on', async (t) => {
  if (!hasTool(t, 'ip') || !hasTool(t, 'rsyslogd') || !hasOwnMachine(t)) return
  const [account = ''] = blocksOf(sectionOf('A five-minute start'), 'sh')
  const moving = blocksOf(sectionOf('Moving from a file'), 'sh')
  assert.equal(moving.length, 2)
  const out = await outOfOwnMachine(
    t,
    `${SYSLOG}${SERVER}${IN_HOME}
     ./tranche init --yes --price-feed static:60000 --partner acme --name Acme > /dev/null 2>&1
     ${account}
     ${moving.join('\necho ---\n')}
     export TRANCHE_DB=$(. /etc/tranche/tranche.env; echo "$TRANCHE_DB")
     ( ${moving[0]}) 2>&1 | sed 's/^/after: /' || true
     grep -c ' backup "' /etc/cron.d/tranche || true
     set -a; . /etc/tranche/tranche.env; set +a
     runuser -u tranche -- tranche partner list
     runuser -u tranche -- tranche tick
     runuser -u tranche -- tranche --db /var/lib/tranche/tranche.db tick 2>&1 || echo "exit $?"`,
  )
  const [practised = '', moved = ''] = out.split('---\n')
  assert.match(practised, /copied to postgres:\/\/tranche:\*\*\*@.*verified; .* still takes writes/)
  assert.match(moved, /verified; \/var\/lib\/tranche\/tranche\.db has moved and takes no more writes$/m)
  assert.match(moved, /^ok\n[\s\S]*\n1\n[\s\S]*acme/m)
  assert.match(moved, /^after: error: This database moved to/m)
  assert.match(moved, /moved to [\s\S]*exit \d+\n$/)
})

// The failover of docs/postgres.md, in its own words, on two machines: the standby goes away and comes back, the
// primary loses its power, the standby takes over, and the old primary follows it. A partner works all the while; no
// write that it was told of is lost, and nothing is bought twice.

const SETTINGS = 'set -a; . /etc/tranche/tranche.env; set +a'
/** The newest installed version, as in the guide. */
const VERSION = 'V=$(ls /usr/lib/postgresql | sort -n | tail -1)'

/** The blocks of a section. A block for both machines is run on each in turn. */
const blocksIn = (section: string): string[] => {
  const body = GUIDE.split(`\n## ${section}\n`)[1]?.split('\n## ')[0]
  assert.ok(body, section)
  return blocksOf(body, 'sh')
}
const blockOf = (title: string): string => {
  const found = blocksOf(GUIDE, 'sh').filter((block) => block.startsWith(`# ${title}\n`))
  assert.equal(found.length, 1, title)
  return found[0] ?? ''
}

const until = (what: string, isSo: () => Promise<unknown> | unknown) => untilWithin(90_000, what, isSo)

/** As the package's installation does; the durability of a disk through a power cut is not tested here. */
const install = ({ run }: Machine) =>
  run(`${VERSION}; pg_createcluster $V main -- --no-sync > /dev/null; pg_ctlcluster $V main start`)

/** Copies the files that the guide says to copy, and gives both proxies a certificate. */
async function share(a: Machine, b: Machine): Promise<void> {
  const tar = await a.run('tar -C /etc/postgresql -c tranche | base64')
  await b.run(`base64 -d <<'END' | tar -C /etc/postgresql -x\n${tar}\nEND`)
  for (const { run } of [a, b])
    await run('cat /etc/postgresql/tranche/server.{crt,key} > /etc/haproxy/tranche.pem')
}

/** Follows the section "Two machines". */
async function setUp(a: Machine, b: Machine): Promise<void> {
  for (const block of blocksIn('Two machines')) {
    const [, who = ''] = /^# (a and b|a|b)\n/.exec(block) ?? assert.fail(block)
    const script = block.replace('--price-feed median', '--price-feed static:60000')
    for (const machine of { a: [a], b: [b], 'a and b': [a, b] }[who] ?? []) await machine.run(script)
    if (block.includes('openssl')) await share(a, b)
  }
}

/** The processes that a machine starts when it has power: its jobs, and not its database. */
async function work(machine: Machine): Promise<void> {
  await machine.run('service haproxy status > /dev/null || service haproxy start')
  machine.start(`${SETTINGS}; exec runuser -u tranche -- tranche serve --no-create 2> /dev/null`)
  machine.start(
    `${SETTINGS}; while :; do runuser -u tranche -- tranche tick > /dev/null 2>&1 || true; sleep 2; done`,
  )
}

type Told = { plan?: string; execution?: string; order?: string; over?: true }

function startPartner(t: TestContext, machine: Machine, key: string, ca: string) {
  const [file, ...argv] = machine.enter
  const program = [
    process.execPath,
    join(import.meta.dirname, 'drill/partner.ts'),
    key,
    ca,
    '10.0.0.1',
    '10.0.0.2',
  ]
  const child = spawn(file, [...argv, ...program], { stdio: ['pipe', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (part) => (out += part))
  child.stderr.setEncoding('utf8').on('data', (part) => (err += part))
  const told = (): Told[] => {
    assert.equal(err, '')
    return out
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  }
  const confirmed = () => told().filter(({ execution }) => execution).length
  return {
    told,
    confirmed,
    /** Resolves when so many more are confirmed. */
    async goesOn(n = 5) {
      const before = confirmed()
      await until(`${n} more confirmations`, () => confirmed() >= before + n)
    },
    async end() {
      child.stdin.end()
      await until('the end of the partner', () => told().some(({ over }) => over))
    },
  }
}

test('a standby that is away, a primary without power and its return: nothing is lost or doubled', async (t) => {
  if (!hasTool(t, 'haproxy') || !hasTool(t, 'ip') || !hasOwnMachine(t)) return
  const { boot } = await twoMachines(t, join(ROOT, 'deploy/postgres'))
  let a = await boot('a')
  const b = await boot('b')
  await Promise.all([install(a), install(b)])
  await setUp(a, b)
  const asTranche = `${SETTINGS}; runuser -u tranche -- tranche`
  const key = (
    await a.run(
      `${asTranche} partner create acme --name Acme > /dev/null; runuser -u tranche -- tranche key create acme --env live`,
    )
  ).trim()
  const ask = ({ run }: Machine, sql: string, options = '-At') =>
    run(`runuser -u postgres -- psql ${options} <<'END'\n${sql}\nEND`)
  const waiting = async () =>
    Number(await ask(a, "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"))
  const follows = async (machine: Machine, name: string) =>
    (await ask(machine, 'select application_name, state from pg_stat_replication')).trim() ===
    `${name}|streaming`
  const found = (machine: Machine) => machine.run(`${asTranche} check --json`)
  const database = (what: string) => `${VERSION}; pg_ctlcluster $V main ${what}`
  await work(a)
  await work(b)
  const partner = startPartner(
    t,
    b,
    key,
    await b
      .run('cat /etc/postgresql/tranche/ca.crt > /mnt/ca.crt; echo /mnt/ca.crt')
      .then((path) => path.trim()),
  )
  await partner.goesOn()

  // The standby is away: commits wait, and say so, until it is back.
  await b.run(database('stop -m immediate'))
  await until('a commit that waits', waiting)
  assert.match(await found(a), /"standby_away"/)
  const before = partner.confirmed()
  const reads = await a.run(
    `curl -sS -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer ${key}' http://10.0.0.1:8080/partner/v1/me`,
  )
  assert.equal(reads, '200')
  assert.ok(partner.confirmed() <= before + 1)
  const readyz = "curl -sS -o /dev/null -w '%{http_code}' http://10.0.0.1:8080/readyz"
  // haproxy checks as well, and an earlier answer to it is cached for a second.
  await until('a that is not ready', async () => (await a.run(readyz)) === '503')
  await b.run(database('start'))
  await partner.goesOn()

  // Or an operator decides to run without a standby, and later with one again.
  await b.run(database('stop -m immediate'))
  await a.run(blockOf('a, to go on alone'))
  await partner.goesOn()
  assert.match(await found(a), /"standby_away"/)
  await b.run(database('start'))
  await until('b that follows', () => follows(a, 'b'))
  await a.run(blockOf('a, no longer alone'))
  await partner.goesOn()

  // The primary loses its power, under load, and the standby takes over.
  await a.cutPower()
  await b.run(blockOf('b, to take over'))
  const isFrozen = async () =>
    (await b.run(`${asTranche} check --json 2>&1 || true`)).includes('database_frozen')
  await until('b that is frozen', isFrozen)
  await b.run(blockOf('b, when nothing is missing'))
  assert.equal(await isFrozen(), false)
  await partner.goesOn()

  // The old primary starts as a primary by mistake: it answers no commit, and nobody is sent to either.
  a = await boot('a')
  await work(a)
  await a.run(database('start'))
  assert.equal(await ask(a, 'select pg_is_in_recovery()'), 'f\n')
  const lost = await a.run(
    "timeout 2 runuser -u postgres -- psql -c 'create table lost ()' > /dev/null 2>&1 || echo $?",
  )
  assert.equal(lost, '124\n')
  const isReady = () => b.run('pg_isready -q -h tranche-db -p 6432 && echo ready || true')
  await until('both refused', async () => (await isReady()) === '')
  await a.run(database('stop -m immediate'))

  // Then it follows, and accepts no writes.
  await a.run(blockOf('a, to follow'))
  await until('a that follows', () => follows(b, 'a'))
  await b.run(blockOf('a, no longer alone'))
  const refused = await a.run("runuser -u postgres -- psql -c 'create table lost ()' 2>&1 || true")
  assert.match(refused, /read-only transaction/)
  await partner.goesOn()
  await partner.end()

  const told = partner.told()
  const trades = (await ask(b, 'select execution_id, partner_order_id from tranche.trades', '-At -d tranche'))
    .trim()
    .split('\n')
  const confirmed = told.flatMap(({ execution, order }) => (execution ? [`${execution}|${order}`] : []))
  assert.deepEqual(trades.sort(), confirmed.sort())
  assert.equal(
    new Set(told.map(({ order }) => order)).size,
    new Set(told.map(({ execution }) => execution)).size,
  )
  const plans = (await ask(b, 'select partner_plan_id from tranche.plans', '-At -d tranche'))
    .trim()
    .split('\n')
  for (const { plan } of told) assert.ok(plan === undefined || plans.includes(plan), String(plan))
  assert.match(await found(b), /"ok": ?true/)
  t.diagnostic(`${confirmed.length} confirmations`)
})
