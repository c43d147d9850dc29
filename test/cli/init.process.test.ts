// tranche init, on a fresh machine: what it makes, that it says how to undo it, and that it may be run again.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasOwnMachine, onOwnMachine } from '../support/own-machine.ts'

/** Everything init could have made or changed. */
const STATE = `state() {
  find /etc /usr/local/bin /var /home -xdev -not -path '/var/spool/cron*' -not -name 'passwd*' -not -name 'group*' \\
    -not -name 'shadow*' -not -name 'gshadow*' -not -name 'sub[ug]id*' -not -name .pwd.lock -printf '%p %u:%g %m\\n' |
    sort
  getent passwd tranche || true
}
undo() { sed -n 's/^  \\(rm\\|userdel\\|systemctl disable\\|chown\\|cp\\|crontab\\)/\\1/p' "$1" > /mnt/undo; bash -eu /mnt/undo; }
`

test('root has a user, folders, settings, a database, jobs and a partner made, once', async (t) => {
  if (!hasOwnMachine(t)) return
  const init =
    '"$TRANCHE" init --yes --scheduler cron --price-feed static:60000 --partner acme --name "Acme Exchange"'
  const script = `${STATE}
    state > /mnt/before
    "$TRANCHE" init --dry-run --scheduler cron > /mnt/dry 2> /dev/null
    state | diff /mnt/before - && echo "the dry run changed nothing"
    ${init} > /mnt/first 2> /mnt/first.err
    cat /mnt/first
    echo ---
    stat -c '%n %U:%G %a' /etc/tranche /etc/tranche/tranche.env /var/lib/tranche /var/lib/tranche/* /var/cache/tranche /etc/cron.d/tranche /usr/local/bin/tranche
    echo ---
    grep -v '^#' /etc/tranche/tranche.env
    cmp /usr/local/bin/tranche "$TRANCHE"
    state > /mnt/after
    ${init} --json > /mnt/second 2> /dev/null
    state | diff /mnt/after - && echo "the second run changed nothing"
    set -a; . /etc/tranche/tranche.env; set +a
    runuser -u tranche -- tranche tick
    runuser -u tranche -- tranche check
    echo ---
    cat /mnt/second
    undo /mnt/first
    state | diff /mnt/before - && echo "everything is undone"`
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  const [first = '', modes, settings, second = ''] = out.split('---\n')
  assert.match(first, /^the dry run changed nothing\ndone {5}\/usr\/local\/bin\/tranche, the program\ndone/)
  assert.doesNotMatch(first, /already|would/)
  assert.match(first, /^The feed static:60000 says 60000\.00 USD\./m)
  assert.match(first, /which is not shown again:\nsse_test_[0-9A-Za-z]{46}\n$/)
  assert.equal(
    modes,
    [
      '/etc/tranche root:tranche 750',
      '/etc/tranche/tranche.env root:tranche 640',
      '/var/lib/tranche tranche:tranche 700',
      '/var/lib/tranche/backups tranche:tranche 700',
      '/var/lib/tranche/tranche.db tranche:tranche 600',
      '/var/lib/tranche/tranche.db-tick tranche:tranche 600',
      '/var/cache/tranche tranche:tranche 700',
      '/etc/cron.d/tranche root:root 644',
      '/usr/local/bin/tranche root:root 755',
      '',
    ].join('\n'),
  )
  assert.match(settings ?? '', /^TRANCHE_PRICE_FEED=static:60000$/m)
  assert.match(settings ?? '', /the second run changed nothing\nok\n$/)
  const [json = '', undone] = second.split('\n')
  const again = JSON.parse(json)
  assert.deepEqual([...new Set(again.steps.map(({ state }: { state: string }) => state))], ['already'])
  assert.deepEqual([again.partner, again.key, again.feed.price_usd], ['acme', null, '60000.00'])
  assert.equal(undone, 'everything is undone')
})
