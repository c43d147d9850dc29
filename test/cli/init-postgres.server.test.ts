// tranche init for a database on a server: what it makes, who may read the password, and that it may be run again.

import assert from 'node:assert/strict'
import { chmodSync } from 'node:fs'
import { test } from 'node:test'
import { hasOwnMachine, onOwnMachine } from '../support/machines.ts'
import { PASSWORD, withPasswords } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'

test('root has jobs made that find the server by the settings, which hold the password and nothing else does', async (t) => {
  if (!hasOwnMachine(t)) return
  const { server, port } = await withPasswords(t)
  // The socket is for every user of the machine, which has no network; the data stay closed.
  chmodSync(server.folder, 0o755)
  const db = `postgres://app:${PASSWORD}@localhost:${port}/app?host=${server.folder}`
  const init = '"$TRANCHE" init --yes --price-feed static:60000 --scheduler'
  const script = `
    export TRANCHE_DB='${db}'
    ${init} cron --dry-run > /mnt/said 2>&1
    ${init} cron --partner acme --name Acme >> /mnt/said 2>&1
    unset TRANCHE_DB
    ${init} cron --json >> /mnt/said 2> /dev/null
    ${init} none --partner acme --name Acme >> /mnt/said 2>&1
    tranche init --undo --dry-run >> /mnt/said 2>&1
    cat /mnt/said
    echo ---
    stat -c '%n %U:%G %a' /etc/tranche/tranche.env
    grep -rl '${PASSWORD}' /etc/tranche /etc/cron.d /var/lib/tranche /var/cache/tranche
    echo ---
    cat /etc/cron.d/tranche
    echo ---
    ls -A /var/lib/tranche
    echo ---
    set -a; . /etc/tranche/tranche.env; set +a
    runuser -u tranche -- tranche tick
    runuser -u tranche -- tranche --json status
    echo ---
    sed -n 's/\\\\%/%/g; s/^17 3 \\* \\* \\* tranche \\({.*}\\) 2>&1.*/\\1/p' /etc/cron.d/tranche > /mnt/backup.sh
    rm /var/lib/tranche/backups/*
    runuser -u tranche -- sh /mnt/backup.sh > /dev/null
    tranche --json --db /var/lib/tranche/backups/tranche-*.db partner list`
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  const [said = '', settings, cron = '', folder, status = '', backedUp = ''] = out.split('---\n')
  assert.doesNotMatch(said, new RegExp(PASSWORD))
  assert.match(said, /would.*postgres:\/\/app:\*\*\*@localhost/)
  assert.match(said, /done {5}postgres:\/\/app:\*\*\*@localhost.*, the database$/m)
  const again = JSON.parse(said.split('\n').find((line) => line.startsWith('{')) ?? '')
  assert.deepEqual(
    again.steps.filter(({ state }: { state: string }) => state !== 'already'),
    [],
  )
  assert.equal(settings, '/etc/tranche/tranche.env root:tranche 640\n/etc/tranche/tranche.env\n')
  assert.match(cron, /tranche tick/)
  assert.match(
    said,
    /^left .*\/var\/lib\/tranche\/, the backups; the database stays on its server, postgres:/m,
  )
  assert.equal(JSON.parse(backedUp)[0].partner_slug, 'acme', 'the job of the night makes a backup')
  assert.equal(folder, 'backups\n')
  assert.match(JSON.parse(status).last_tick_at, /^20/)
})

test('a user has settings that only they can read, and a crontab that finds the server by them', async (t) => {
  if (!hasOwnMachine(t) || !hasTool(t, 'cron')) return
  const { server, port } = await withPasswords(t)
  chmodSync(server.folder, 0o755)
  const db = `postgres://app:${PASSWORD}@localhost:${port}/app?host=${server.folder}`
  const script = `
    useradd --create-home ops
    cat > /mnt/ops.sh <<'END'
      cd "$HOME"
      TRANCHE_DB='${db}' "$TRANCHE" init --yes --scheduler cron --price-feed static:60000 > said 2>&1
      cat said
      echo ---
      stat -c '%n %U %a' .local/share/tranche .local/share/tranche/*
      grep -rl '${PASSWORD}' .
      echo ---
      crontab -l
      echo ---
      crontab -l | grep 'tick' | grep -o '{.*' > job
      sed 's/ 2>&1 |.*//; s/ | logger.*//' job
      set -a; . .local/share/tranche/tranche.env; set +a
      "$TRANCHE" tick
      "$TRANCHE" --json status
END
    runuser -u ops -- env HOME=/home/ops sh /mnt/ops.sh`
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  const [said = '', files, crontab = '', rest = ''] = out.split('---\n')
  assert.doesNotMatch(said + crontab, new RegExp(PASSWORD))
  assert.match(said, /done {5}postgres:\/\/app:\*\*\*@localhost/)
  assert.equal(
    files,
    '.local/share/tranche ops 700\n.local/share/tranche/backups ops 700\n.local/share/tranche/cache ops 700\n.local/share/tranche/tranche.env ops 600\n./.local/share/tranche/tranche.env\n',
  )
  assert.match(crontab, /tranche\.env; .*tick/)
  assert.match(JSON.parse(rest.trimEnd().split('\n').at(-1) ?? '').last_tick_at, /^20/)
})

test('for systemd root is shown units that do not hold the password, one of which backs it up over the network', async (t) => {
  if (!hasOwnMachine(t)) return
  const { server, port } = await withPasswords(t)
  chmodSync(server.folder, 0o755)
  const db = `postgres://app:${PASSWORD}@localhost:${port}/app?host=${server.folder}`
  const script = `
    mkdir -p /run/systemd/system
    TRANCHE_DB='${db}' "$TRANCHE" init --yes --dry-run --scheduler systemd --price-feed static:60000 2>&1
    ls -d /etc/tranche /var/lib/tranche 2> /dev/null || true`
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  assert.doesNotMatch(out, new RegExp(PASSWORD))
  assert.match(out, /would.*tranche-tick\.timer/)
  assert.match(out, /would.*tranche-backup\.timer/)
  assert.doesNotMatch(out, /^\/(etc|var)/m)
})

test('the jobs go from a file to a server and back only when the former one is sealed', async (t) => {
  if (!hasOwnMachine(t)) return
  const { server, port } = await withPasswords(t)
  chmodSync(server.folder, 0o755)
  const db = `postgres://app:${PASSWORD}@localhost:${port}/app?host=${server.folder}`
  const file = '/var/lib/tranche/tranche.db'
  const script = `
    init() { "$TRANCHE" init --yes --price-feed static:60000 --scheduler cron "$@" 2>&1; }
    copy() { runuser -u tranche -- tranche copy --seal "$@" > /dev/null; }
    used() { grep '^TRANCHE_DB=' /etc/tranche/tranche.env | cut -c-15; }
    init --partner acme --name Acme > /dev/null
    export TRANCHE_DB='${db}'
    init || echo "exit $?"
    used
    psql -Atqc "select 'schemas: ' || count(*) from pg_namespace where nspname = 'tranche'" "$TRANCHE_DB"
    echo ---
    copy --from ${file}
    init > /dev/null
    used
    runuser -u tranche -- tranche partner list --json
    echo ---
    mv ${file} ${file}.old
    TRANCHE_DB=${file} init || echo "exit $?"
    copy --to ${file}
    TRANCHE_DB=${file} init > /dev/null
    used
    unset TRANCHE_DB
    set -a; . /etc/tranche/tranche.env; set +a
    runuser -u tranche -- tranche tick`
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  assert.doesNotMatch(out, new RegExp(PASSWORD))
  const [refused = '', moved = '', back = ''] = out.split('---\n')
  assert.match(refused, /^error: The jobs use \/var\/lib\/tranche\/tranche\.db, which has partners .*--seal/)
  assert.match(refused, /\nexit 5\nTRANCHE_DB=\/var\nschemas: 0\n$/)
  assert.match(moved, /^TRANCHE_DB='pos\n.*acme/)
  assert.match(back, /^error: The jobs use postgres:\/\/app:\*\*\*@.*\nexit 5\nTRANCHE_DB=\/var\n$/)
})
