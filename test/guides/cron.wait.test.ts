// Debian's own cron, with its own log, on the lines that the guides show: as a system table and as a user's crontab. It
// reads its tables once a minute, so this waits for the next one.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasOwnMachine, outOfOwnMachine, SYSLOG } from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8')
const linesOf = (text: string): string[] => text.split('\n').filter((line) => /^[\d*]/.test(line))
const TABLE = linesOf(read('deploy/tranche.cron'))

/** The nightly lines, at the next minute: their commands are the same by day. */
const NOW = `sed -i -E 's/^[0-9]+ [0-9]+ /* * /' /etc/cron.d/tranche`

test('cron runs every line that init installs, and what the jobs say is in the log of the system', async (t) => {
  if (!hasOwnMachine(t) || !hasTool(t, 'cron') || !hasTool(t, 'rsyslogd')) return
  // A feed without an answer: the tick goes by the clock, and says why. So does a later check.
  const init = `init --yes --scheduler cron --price-feed 'http://127.0.0.1:9/?a=1&b=$HOME#/price'`
  const logger = /\| (logger .*)$/.exec(TABLE[0] ?? '')?.[1] ?? assert.fail('no logger')
  const script = `
    echo hello | ${logger} 2>&1 || echo "without a log: $?"
    echo ---
    ${SYSLOG}
    "$TRANCHE" ${init} > /dev/null 2>&1
    for day in {01..14}; do touch /var/lib/tranche/backups/tranche-202001\${day}T000000Z.db; done
    touch /var/lib/tranche/backups/another.db
    ${NOW}
    useradd --create-home ops
    runuser -u ops -- env HOME=/home/ops sh -c 'echo "7 7 7 7 * true" | crontab -'
    runuser -u ops -- env HOME=/home/ops tranche ${init} > /dev/null 2>&1
    cron
    while ! { grep -q 'tranche: .*backups' /var/log/syslog && grep -qE 'tranche: (ok|0 errors)' /var/log/syslog &&
      [ "$(grep -c 'tranche: warning: price feed' /var/log/syslog)" -ge 2 ]; }; do sleep 1; done
    cat /var/log/syslog
    echo ---
    ls /var/lib/tranche/backups
    echo ---
    for db in /var/lib/tranche/tranche.db /home/ops/.local/share/tranche/tranche.db; do
      runuser -u "$(stat -c %U $db)" -- env TRANCHE_CACHE=/nowhere tranche --db $db status --json
    done`
  const out = await outOfOwnMachine(t, script)
  const [unheard = '', log = '', backups = '', statuses = ''] = out.split('---\n')
  // Without a log daemon, a line is not lost silently.
  assert.match(unheard, /\/dev\/log[\s\S]*\nwithout a log: 1\n$/)
  for (const line of TABLE) {
    const command = line.replace(/^(\S+ +){5}tranche +/, '')
    assert.ok(log.includes(`(tranche) CMD (${command.replaceAll('\\%', '%')})`), `${command}\n${log}`)
  }
  assert.match(log, /\(ops\) CMD \(\{ set -a; \. \/home\/ops\/\.local\/share\/tranche\/tranche\.env; /)
  assert.match(
    log,
    / tranche: warning: price feed 127\.0\.0\.1:9: (?:the connection was refused|its address cannot be reached)/,
  )
  // Nothing was left to a missing mail server.
  assert.doesNotMatch(log, /No MTA installed/)
  // On a slow machine a second minute begins meanwhile.
  assert.match(backups, /^another\.db\n(tranche-\d{8}T\d{6}Z\.db\n){14}$/)
  assert.match(backups, /tranche-20200114T/)
  assert.doesNotMatch(backups, /tranche-20200101T/)
  for (const status of statuses.trim().split('\n')) assert.notEqual(JSON.parse(status).last_tick_at, null)
})

test('the guides show the lines of deploy/, and send what each one says to the log', () => {
  const [crontab = ''] = blocksOf(read('docs/reference.md'), 'crontab')
  assert.deepEqual(linesOf(crontab), TABLE)
  assert.equal(TABLE.length, 3)
  for (const guide of ['README.md', 'docs/reference.md', 'deploy/README.md']) {
    const shown = read(guide)
      .split('\n')
      .filter((line) => /^(\*|\d+) (\*|\d+) \* \* \* /.test(line))
    for (const line of shown) assert.ok(TABLE.includes(line), `${guide}: ${line}`)
  }
  for (const line of TABLE) {
    assert.match(line, / \/usr\/local\/bin\/tranche .* 2>&1 \| logger -t tranche /)
    // An unescaped percent sign ends the command there, silently.
    assert.doesNotMatch(line, /(?<!\\)%/)
  }
})
