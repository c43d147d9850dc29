// tranche init, on a fresh machine: the files it makes, that it may be run again, and that --undo removes them.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileStep } from '../../src/cli/init/file-steps.ts'
import { temporaryFolder } from '../support/database.ts'
import { hasOwnMachine, outOfOwnMachine } from '../support/machines.ts'
import { hasTool } from '../support/tools.ts'

/** Everything that init could have made or changed. */
const STATE = `state() {
  find /etc /usr/local/bin /var /home -xdev -not -path '/var/spool/cron*' -not -name 'passwd*' -not -name 'group*' \\
    -not -name 'shadow*' -not -name 'gshadow*' -not -name 'sub[ug]id*' -not -name .pwd.lock -printf '%p %u:%g %m\\n' |
    sort
  getent passwd tranche || true
}
`

test('root has a user, folders, settings, a database, jobs and a partner made, once', async (t) => {
  if (!hasOwnMachine(t)) return
  const init =
    '"$TRANCHE" init --yes --scheduler cron --price-feed static:60000 --partner acme --name "Acme Exchange"'
  const script = `${STATE}
    state > /mnt/before
    "$TRANCHE" init --dry-run --scheduler cron --partner acme --name Acme > /mnt/dry 2> /dev/null
    tail -n 1 /mnt/dry | grep -q "^It would make a test key of acme unless one works"
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
    state > /mnt/after
    tranche init --undo 2>&1 > /mnt/refused && exit 9
    tranche init --undo --yes --partner acme 2>&1 > /mnt/refused && exit 9
    tranche init --undo --dry-run > /mnt/dry
    state | diff /mnt/after - && echo "nothing is undone without a yes"
    echo '5 5 * * * root true' >> /etc/cron.d/tranche
    sqlite3 /var/lib/tranche/tranche.db 'select count(*) from partners'
    tranche init --undo --yes > /mnt/undone
    sed 's/^would/done /' /mnt/dry | diff - /mnt/undone | grep '^[<>]' || true
    cat /etc/cron.d/tranche | grep -v '^#'
    sqlite3 /var/lib/tranche/tranche.db 'select count(*) from partners'
    rm /etc/cron.d/tranche
    "$TRANCHE" init --undo --yes --json
    sed -n 's/^  \\(rm\\|userdel\\)/\\1/p' /mnt/undone > /mnt/rest; bash -eu /mnt/rest
    state | diff /mnt/before - && echo "everything is gone"
    "$TRANCHE" init --undo --yes`
  const out = await outOfOwnMachine(t, script)
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
  const [json = '', ...undone] = second.split('\n')
  const again = JSON.parse(json)
  assert.deepEqual([...new Set(again.steps.map(({ state }: { state: string }) => state))], ['already'])
  assert.deepEqual([again.partner, again.key, again.feed.price_usd], ['acme', null, '60000.00'])
  assert.deepEqual(undone, UNDONE)
})

const UNDONE = [
  'to do    /etc/cron.d/tranche removed',
  'to do    /var/cache/tranche/ removed',
  'to do    /usr/local/bin/tranche removed',
  'error: This stops the service and its jobs: without a terminal, add --yes.',
  'error: --undo goes with --yes or --dry-run, and with nothing else of init.',
  'nothing is undone without a yes',
  '1',
  '< done     /etc/cron.d/tranche removed',
  '> done     the jobs in /etc/cron.d/tranche removed; its other lines stay',
  'SHELL=/bin/sh',
  '',
  '5 5 * * * root true',
  '1',
  JSON.stringify({
    steps: [],
    left: [
      { what: '/etc/tranche/, the settings', remedy: 'rm -r /etc/tranche' },
      {
        what: '/var/lib/tranche/, the database and its backups, to be kept for your books',
        remedy: 'rm -r /var/lib/tranche',
      },
      { what: 'the user tranche, who owns them', remedy: 'userdel tranche' },
    ],
  }),
  'everything is gone',
  'Nothing of init is on this machine.',
  '',
]

test('--no-start makes no database and starts nothing; a repository brings its unit, and --undo names all that stays', async (t) => {
  if (!hasOwnMachine(t)) return
  // When systemd seems to run the machine, systemctl fails for everybody.
  const script = `mkdir -p /run/systemd/system
    "$TRANCHE" init --yes --no-start --partner acme --name Acme 2>&1 && exit 9
    units() { ls /etc/systemd/system | grep tranche; grep OnSuccess /etc/systemd/system/tranche-backup.service || true; }
    "$TRANCHE" init --yes --no-start --ping http://127.0.0.1:1/x 2>&1 | grep -c '^Nothing was started'
    ls /var/lib/tranche; units
    echo RESTIC_REPOSITORY=/mnt/offsite >> /etc/tranche/tranche.env
    "$TRANCHE" init --yes --no-start | grep ^done
    units
    rmdir /run/systemd/system
    "$TRANCHE" init --yes --no-start --scheduler cron 2> /dev/null | grep -c ^done || ls /etc/cron.d
    mkdir -p /etc/letsencrypt/renewal-hooks/deploy; touch /etc/letsencrypt/renewal-hooks/deploy/tranche
    cp "$TRANCHE" /usr/local/bin/tranche-before
    sed -i 's#TRANCHE_DB=.*#TRANCHE_DB=postgres://tranche@db.example/tranche#' /etc/tranche/tranche.env
    touch /var/lib/tranche/tranche.db
    "$TRANCHE" init --undo --yes | sed -n '/^left/p; $p'
    ls /etc/systemd/system | grep tranche || true`
  const out = await outOfOwnMachine(t, script)
  const units = ['backup.service', 'backup.timer', 'check.service', 'check.timer']
  const more = ['tick.service', 'tick.timer']
  const named = (names: string[]) => [...names.map((name) => `tranche-${name}`), 'tranche.service']
  assert.deepEqual(out.trim().split('\n'), [
    'error: --no-start makes no database, so it takes no --partner.',
    '1',
    'backups',
    ...named([...units, ...more]),
    'done     /etc/tranche/tranche.env, the settings of all jobs',
    'done     /etc/systemd/system/tranche-backup.service',
    'done     /etc/systemd/system/tranche-offsite.service',
    'tranche-backup.service',
    ...named([...units.slice(1), 'offsite.service', ...more]),
    'OnSuccess=tranche-offsite.service',
    '0',
    'left     /etc/letsencrypt/renewal-hooks/deploy/tranche, the hook of certbot, which would fail',
    'left     /usr/local/bin/tranche-before, the program before the last upgrade',
    'left     /etc/tranche/, the settings',
    'left     /var/lib/tranche/, the backups, and the file that has moved, to be kept until its month is closed; the database stays on its server, postgres://tranche@db.example/tranche',
    'left     the user tranche, who owns them',
    'What `tranche docs` has written, such as the samples, is wherever it was told to write it.',
  ])
})

test('what is in the way is told with the way out, before anything is done', async (t) => {
  if (!hasOwnMachine(t)) return
  const script = `${STATE}
    refused() { state > /mnt/before; "$@" 2>&1 > /dev/null && exit 9; state | diff /mnt/before -; }
    refused "$TRANCHE" --db /srv/x.db init
    refused "$TRANCHE" init --partner acme
    refused "$TRANCHE" init --scheduler none --partner acme --name "$(printf '%0256d' 0)"
    refused "$TRANCHE" init --price-feed nobody
    ln -s /mnt /var/lib/tranche; refused "$TRANCHE" init; rm /var/lib/tranche
    echo other > /usr/local/bin/tranche; refused "$TRANCHE" init; rm /usr/local/bin/tranche
    # Settings that somebody else could have written: a link, theirs, or what never ends to be read.
    install -d -o nobody /etc/tranche; echo secret > /mnt/secret
    ln -s /mnt/secret /etc/tranche/tranche.env; refused "$TRANCHE" init; rm /etc/tranche/tranche.env
    runuser -u nobody -- touch /etc/tranche/tranche.env; refused "$TRANCHE" init; rm /etc/tranche/tranche.env
    mkfifo /etc/tranche/tranche.env; refused timeout 20 "$TRANCHE" init; rm -r /etc/tranche
    # A step that fails: those before it are told.
    groupadd tranche
    "$TRANCHE" init 2>&1 && exit 9
    groupdel tranche
    "$TRANCHE" init --scheduler none > /dev/null
    chown root: /var/lib/tranche/tranche.db; refused "$TRANCHE" init; chown tranche: /var/lib/tranche/tranche.db
    runuser -u nobody -- env HOME=/home "$TRANCHE" --db "/mnt/a b/x.db" init 2>&1 && exit 9
    runuser -u nobody -- env HOME=/home "$TRANCHE" --db /mnt/x.db init --scheduler systemd 2>&1 && exit 9
    runuser -u nobody -- env HOME=/home "$TRANCHE" --db /var/lib/tranche/tranche.db init 2>&1 && exit 9
    true`
  const out = await outOfOwnMachine(t, script)
  const lines = out.split('\n').filter((line) => line !== '')
  const EXPECTED = [
    /^error: For root the database is \/var\/lib\/tranche\/tranche\.db.*leave out --db/,
    /^error: --partner and --name go together\.$/,
    /^error: --name takes 1 to 255 characters\.$/,
    /^error: Unknown price feed "nobody"/,
    /^error: \/var\/lib\/tranche is a link or a file: move it away/,
    /^error: \/usr\/local\/bin\/tranche is another version: run `install -m 0755 /,
    /^error: \/etc\/tranche\/tranche\.env is a link or not a plain file: move it away/,
    /^error: \/etc\/tranche\/tranche\.env belongs to another user \(uid \d+\): look at it/,
    /^error: \/etc\/tranche\/tranche\.env is a link or not a plain file: move it away/,
    /^done {5}\/usr\/local\/bin\/tranche, the program$/,
    /^error: useradd .*: useradd: group tranche exists/,
    /^error: \/var\/lib\/tranche\/tranche\.db belongs to another user \(uid 0\): run `chown -R tranche: /,
    /^error: A crontab cannot hold \/mnt\/a b\/x\.db/,
    /^error: Only root installs units/,
    /^error: \/var\/lib\/tranche belongs to another user and may not be entered: leave out --db and TRANCHE_DB/,
  ]
  assert.equal(lines.length, EXPECTED.length, out)
  for (const [at, expected] of EXPECTED.entries()) assert.match(lines[at] ?? '', expected)
})

const OPS = `set -eu; cd "$HOME"
echo '7 7 7 7 * true' | crontab -
"$TRANCHE" init --yes
echo ---
"$TRANCHE" init --yes --scheduler cron --ping 'http://127.0.0.1:1/x?y=1&z=2' > first 2> first.err
crontab -l; grep -v '^#' .local/share/tranche/tranche.env
stat -c '%n %U %a' .local/share/tranche .local/share/tranche/tranche.*
crontab -l > before; "$TRANCHE" init --yes --scheduler cron > second 2> second.err; crontab -l | cmp - before
grep -c ^already second
grep -c ^done second || true
echo ---
"$TRANCHE" init --undo --yes; crontab -l; ls .local/share/tranche | grep -v 'db-'
`

test('a user has a folder of their own, and a crontab that keeps what it had', async (t) => {
  if (!hasOwnMachine(t) || !hasTool(t, 'cron')) return
  const script = `
    useradd --create-home ops
    cat > /mnt/ops.sh <<'END'
${OPS}
END
    runuser -u ops -- env HOME=/home/ops sh /mnt/ops.sh`
  const out = await outOfOwnMachine(t, script)
  const [printed = '', installed = '', undone = ''] = out.split('---\n')
  assert.match(printed, /^done {5}\/home\/ops\/\.local\/share\/tranche\/, mode 0700\n/)
  assert.match(printed, /^Or put these lines into your crontab/m)
  assert.match(
    printed,
    /^ {2}\* \* \* \* \* \{ set -a; \. \/home\/ops\/\.local\/share\/tranche\/tranche\.env; /m,
  )
  assert.match(
    installed,
    /^7 7 7 7 \* true\n# tranche init: begin\n\* \* \* \* \* \{[\s\S]*\n# tranche init: end\nTRANCHE_DB=/,
  )
  assert.match(installed, /^TRANCHE_PING_URL='http:\/\/127\.0\.0\.1:1\/x\?y=1&z=2'$/m)
  assert.match(installed, /tranche ops 700\n.*tranche\.db ops 600\n[\s\S]*tranche\.env ops 600\n/)
  assert.match(installed, /\n6\n0\n$/)
  assert.match(
    undone,
    /^done {5}the jobs in your crontab removed; .*\n[\s\S]*\n7 7 7 7 \* true\nbackups\ninit.sha256\ntranche.db\ntranche.env\n$/,
  )
})

/**
 * Takes pairs of an expected text on the terminal and an answer to it; shows the terminal. `meanwhile` is called with
 * each question when it is there and not yet answered.
 */
const TALK = `meanwhile() { :; }
talk() {
  rm -f /mnt/in /mnt/tty; mkfifo /mnt/in; : > /mnt/tty
  timeout -k 1 30 script -qefc "$TRANCHE init --scheduler none" /mnt/tty < /mnt/in > /dev/null & talking=$!
  exec 3> /mnt/in
  while [ $# -gt 0 ]; do
    for ((tried = 0; tried < 100; tried++)); do grep -q "$1" /mnt/tty && break; sleep 0.1; done
    meanwhile "$1"
    # What is typed before the question is there would be lost.
    sleep 0.2; echo "$2" >&3; shift 2
  done
  ended=0; wait $talking || ended=$?
  exec 3>&-; tr -d '\\r' < /mnt/tty; echo "(exit $ended)"
}`

test('on a terminal it asks, shows what there will be, and does nothing without a yes; links lead nowhere', async (t) => {
  if (!hasOwnMachine(t)) return
  const script = `${STATE}
    ${TALK}
    state > /mnt/before
    talk 'prices come' static:60000 'heartbeat' '' 'first partner' acme 'name of acme' 'Acme Exchange' 'test or live' '' 'Go on' n
    state | diff /mnt/before -
    echo ---
    talk 'prices come' nobody Unknown static:60000 'heartbeat' me 'https address' http://127.0.0.1:1/x 'first partner' A 'A slug is' acme 'name of' 'Acme Exchange' 'test or live' prod 'Answer test' live 'Go on' y
    grep TRANCHE_PING /etc/tranche/tranche.env
    runuser -u tranche -- env TRANCHE_CACHE=/var/cache/tranche tranche --db /var/lib/tranche/tranche.db partner list
    echo ---
    # A link in the way of a copy is replaced, and one that comes while root reads the question is found.
    mkdir /mnt/others; echo precious > /mnt/precious
    ln -s /mnt/precious /etc/tranche/tranche.env.before-init
    echo '# mine' >> /etc/tranche/tranche.env
    "$TRANCHE" init --yes --scheduler none --price-feed static:61000 > /dev/null 2>&1
    cat /mnt/precious
    stat -c '%F %U %a' /etc/tranche/tranche.env.before-init
    chmod 0755 /var/lib/tranche/backups
    meanwhile() {
      [ "$1" != 'Go on' ] ||
        runuser -u tranche -- sh -c 'mv /var/lib/tranche/backups /var/lib/tranche/away; ln -s /mnt/others /var/lib/tranche/backups'
    }
    talk 'prices come' '' 'heartbeat' '' 'first partner' '' 'Go on' y
    stat -c '%n %U %a' /mnt/others`
  const out = await outOfOwnMachine(t, script)
  const [no = '', yes = '', linked = ''] = out.split('---\n')
  assert.match(no, /Where do prices come from: none, static:PRICE/)
  assert.match(no, /to do {4}\/var\/lib\/tranche\/tranche\.db, the database\n/)
  assert.match(no, /error: Nothing was changed\.\n[\s\S]*\(exit 2\)\n$/)
  assert.match(yes, /Unknown price feed "nobody"/)
  assert.match(yes, /A slug is 2 to 63 lower-case letters/)
  assert.match(yes, /\nsse_live_\w+\n/)
  assert.match(yes, /\(exit 0\)\nTRANCHE_PING_URL=http:\/\/127\.0\.0\.1:1\/x\n[\s\S]*acme +Acme Exchange/)
  assert.match(linked, /^precious\nregular file root 600\n/)
  assert.match(
    linked,
    /error: \/var\/lib\/tranche\/backups is a link or not a plain file: move it away[\s\S]*\(exit 1\)/,
  )
  assert.match(linked, /\/mnt\/others root 755\n$/)
})

test('what another init finds is kept beside the copies that are there: the first is what was there before any', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.env')
  const owner = () => ({ uid: statSync(dirname(file)).uid, gid: statSync(dirname(file)).gid })
  const written = join(dirname(file), 'init.sha256')
  const init = async (text: string) => {
    const step = fileStep(file, text, { mode: 0o600, owner, written })
    await step.perform()
    return step.what
  }
  writeFileSync(file, 'mine')
  assert.equal(await init('first'), `${file}; the old one is kept as ${file}.before-init`)
  writeFileSync(file, 'edited')
  assert.equal(await init('second'), `${file}; the old one is kept as ${file}.before-init-2`)
  writeFileSync(file, 'mine')
  assert.equal(
    await init('third'),
    `${file}; the old one is kept as ${file}.before-init`,
    'the same text is kept once',
  )
  assert.deepEqual(
    ['', '-2', '-3'].map(
      (end) => existsSync(`${file}.before-init${end}`) && readFileSync(`${file}.before-init${end}`, 'utf8'),
    ),
    ['mine', 'edited', false],
  )
})

test('what init wrote and nobody edited is replaced without a copy, as after an upgrade', async (t) => {
  const folder = temporaryFolder(t)
  const [file, other] = [join(folder, 'tranche.service'), join(folder, 'tranche.env')]
  const owner = () => ({ uid: statSync(folder).uid, gid: statSync(folder).gid })
  const written = join(folder, 'init.sha256')
  const step = (name: string, text: string) => fileStep(name, text, { mode: 0o600, owner, written })
  await step(other, 'settings').perform()
  await step(file, 'first').perform()
  assert.equal(step(file, 'first').isDone(), true)
  assert.equal(step(file, 'second').what, file)
  await step(file, 'second').perform()
  assert.deepEqual(readdirSync(folder).sort(), ['init.sha256', 'tranche.env', 'tranche.service'])
  assert.equal(spawnSync('sha256sum', ['--check', '--strict', written]).status, 0)
  writeFileSync(file, 'edited')
  assert.equal(step(file, 'third').what, `${file}; the old one is kept as ${file}.before-init`)
  // An init older than that list has written it, or a person the same text: from now on it counts as init's.
  writeFileSync(file, 'third')
  assert.equal(step(file, 'third').isDone(), false)
  await step(file, 'third').perform()
  assert.equal(step(file, 'fourth').what, file)
})

test('a machine whose jobs are of cron keeps them so where systemd runs, and never has both', async (t) => {
  if (!hasOwnMachine(t)) return
  const script = `${STATE}
    "$TRANCHE" init --yes --scheduler cron > /dev/null 2>&1
    # As if systemd had booted it.
    mkdir -p /run/systemd/system
    state > /mnt/before
    "$TRANCHE" init --yes 2> /dev/null | grep -c '^already .*/etc/cron.d/tranche'
    "$TRANCHE" init --yes --scheduler systemd 2>&1 && exit 9
    state | diff /mnt/before -
    # The other way round, and both at once.
    mv /etc/cron.d/tranche /mnt/table && : > /etc/systemd/system/tranche.service
    "$TRANCHE" init --dry-run 2> /dev/null | grep -c '^would .*/tranche-tick.timer$'
    "$TRANCHE" init --yes --scheduler cron 2>&1 && exit 9
    mv /mnt/table /etc/cron.d/tranche
    "$TRANCHE" init --yes --scheduler cron 2>&1 | grep '^warning: .*both'`
  const out = await outOfOwnMachine(t, script)
  const lines = out.split('\n').filter((line) => line !== '')
  assert.deepEqual(lines, [
    '1',
    'error: The jobs are in /etc/cron.d/tranche: take them away with `tranche init --undo`, stop the serve of your supervisor, then run init again.',
    '1',
    'error: The jobs are units of systemd: take them away with `tranche init --undo`, then run init again.',
    'warning: both systemd and cron run the jobs, so the backups of a night count twice against --keep: `tranche init --undo` takes both away; then run init again with one',
  ])
})
