// Commands on a machine where a service is installed: they find its database, as its user, and the commands they
// suggest work when pasted.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { SYSTEM } from '../../src/cli/init/places.ts'
import { INSTALLED } from '../../src/store/address.ts'
import { hasOwnMachine, onOwnMachine } from '../support/machines.ts'

/** A service as init installs it, its database in an unusual folder, and a person who is no administrator. */
const INSTALL = `useradd --system --home-dir /var/lib/tranche tranche && useradd alice
  install -m 755 "$TRANCHE" /usr/local/bin/tranche
  install -d -o tranche -m 700 /var/lib/tranche /var/cache/tranche
  install -d -o tranche -m 700 /var/lib/elsewhere
  install -d -g tranche -m 750 /etc/tranche
  printf "TRANCHE_DB='/var/lib/elsewhere/a b.db'\nTRANCHE_CACHE=/var/cache/tranche\n" > /etc/tranche/tranche.env
  chgrp tranche /etc/tranche/tranche.env && chmod 640 /etc/tranche/tranche.env
  mkdir -p /home/alice && chown alice /home/alice
  db="/var/lib/elsewhere/a b.db"
  cd /home
  runuser -u tranche -- env TRANCHE_CACHE=/var/cache/tranche tranche --db "$db" partner create acme --name Acme > /dev/null`

async function shellOf(t: TestContext, script: string): Promise<{ out: string; err: string }> {
  const { code, out, err } = await onOwnMachine(t, `${INSTALL}\n${script}`)
  assert.equal(code, 0, err)
  return { out, err }
}

test('root works on the database of the installed service as its user, and leaves nothing of its own there', async (t) => {
  assert.deepEqual([INSTALLED.settings, INSTALLED.folder], [SYSTEM.settings, SYSTEM.folder])
  if (!hasOwnMachine(t)) return
  const { out, err } = await shellOf(
    t,
    `umask 077
    tranche partner list
    SUDO_USER=alice tranche partner create bolt --name Bolt > /dev/null
    tranche --json audit 2> /home/said | grep -o '"os_user":"[^"]*"' | sort -u
    cat /home/said
    find /var/lib/elsewhere ! -user tranche`,
  )
  assert.match(out, /^acme /m)
  assert.match(out, /"os_user": ?"alice as tranche"/)
  assert.match(
    out,
    /\{"warnings":\["using the database \/var\/lib\/elsewhere\/a b\.db, named in \/etc\/tranche\/tranche\.env, as the user tranche"\]\}\n$/,
  )
  const said =
    'using the database /var/lib/elsewhere/a b.db, named in /etc/tranche/tranche.env, as the user tranche\n'
  assert.equal(err, said.repeat(2))
})

test('--db and TRANCHE_DB come first, and a folder with a database of its own has to be told from the service', async (t) => {
  if (!hasOwnMachine(t)) return
  const { out, err } = await shellOf(
    t,
    `mkdir /home/own && cd /home/own
    tranche --db tranche.db partner create mine --name Mine > /dev/null
    tranche --db tranche.db partner list
    TRANCHE_DB=tranche.db tranche partner list
    ! tranche partner list
    tranche version > /dev/null
    cd / && tranche --db /home/own/tranche.db partner list | grep -c acme || true`,
  )
  assert.equal(out.match(/^mine /gm)?.length, 2)
  assert.match(out, /\n0\n$/)
  assert.match(
    err,
    /^error: There is a tranche\.db in this folder, and the service installed on this machine has \/var\/lib\/elsewhere\/a b\.db: name the one you mean with --db\.\n$/,
  )
})

test('who may not read the settings is told to use sudo, and works on a database of their own', async (t) => {
  if (!hasOwnMachine(t)) return
  const { out, err } = await shellOf(
    t,
    `cd /home/alice
    ! runuser -u alice -- env TRANCHE_CACHE=/home/alice/cache tranche status
    runuser -u alice -- env TRANCHE_CACHE=/home/alice/cache tranche --db tranche.db partner create own --name Own > /dev/null
    runuser -u alice -- env TRANCHE_CACHE=/home/alice/cache tranche partner list`,
  )
  assert.match(out, /^own /m)
  assert.equal(
    err,
    'error: The service installed on this machine has its settings in /etc/tranche/tranche.env, which this user may not ' +
      'read: run the command with `sudo` before it, or name another database with --db.\n',
  )
})

test('what status and check tell one to run, and the page of the operator, works when it is pasted', async (t) => {
  if (!hasOwnMachine(t)) return
  const { out } = await shellOf(
    t,
    `printf '#!/bin/sh\nSUDO_USER=alice exec "$@"\n' > /usr/local/bin/sudo && chmod 755 /usr/local/bin/sudo
    ip link set lo up
    chmod 644 "$db"
    sudo tranche --json check 2> /dev/null | grep -o '"mend": *"[^"]*"' | sed 's/^"mend": *"//; s/"$//' > /home/mends
    cat /home/mends
    grep '^sudo chmod' /home/mends | sh
    stat -c '%a %U' "$db"
    runuser -u tranche -- env TRANCHE_CACHE=/var/cache/tranche TRANCHE_DB="$db" tranche serve --port 0 \
      --ops-listen 127.0.0.1:9191 > /home/served 2>&1 &
    for i in $(seq 100); do curl -fs http://127.0.0.1:9191/ops > /home/page && break; sleep 0.1; done
    kill $!
    grep -o '<code>[^<]*check</code>' /home/page`,
  )
  assert.match(out, /^sudo chmod 600 '\/var\/lib\/elsewhere\/a b\.db'$/m)
  assert.match(out, /^600 tranche$/m)
  assert.match(out, /<code>sudo tranche check<\/code>/)
})

test('a file that root names is read as root: in a folder that the user of the service may not enter', async (t) => {
  if (!hasOwnMachine(t)) return
  const { out } = await shellOf(
    t,
    `umask 077
    mkdir /home/found && cd /home/found
    tranche backup /var/lib/elsewhere/copy.db > /dev/null
    mv /var/lib/elsewhere/copy.db . && chown root: copy.db
    printf 'time,price\n2026-01-01T00:00:00Z,90000\n' > prices.csv
    printf 'partner_order_id,usd_amount,btc_amount\n' > orders.csv
    printf '{"issuer":{"name":"I","address":["A"]},"partners":{"acme":{"name":"A","address":["B"]}},"accounts":{"receivable":"r","revenue":"v"}}' > settings.json
    tranche price import prices.csv | grep added
    tranche billing reconcile --against orders.csv --month 2026-01 --partner acme
    tranche billing invoice --partner acme --month $(date -u +%Y-%m) --settings settings.json --format md | grep -c '^# '
    tranche --json restore /home/found/copy.db > restored
    grep -Fo '"frozen":true' restored
    tranche --json audit | grep -o '"from": *"[^"]*"'
    find /var/lib/elsewhere ! -user tranche
    ls -A /home/found
    ! tranche billing export --month 2026-01 --output x.csv 2> said; tail -1 said
    ! tranche backup /home/found/y.db 2> said; tail -1 said
    ! tranche restore /home/found/none.db 2> said; tail -1 said`,
  )
  assert.deepEqual(out.split('\n'), [
    'added       1',
    `2026-01: acme live and orders.csv agree (0 orders, 0.00 USD, 0.00000000 BTC).`,
    '1',
    '"frozen":true',
    '"from":"/home/found/copy.db"',
    ...['copy.db', 'orders.csv', 'prices.csv', 'restored', 'settings.json'],
    'error: x.csv cannot be used: permission denied: give this user permission, or name another place (EACCES).',
    'error: /home/found/y.db cannot be written: the folder /home/found belongs to root (mode 700), and this user has no permission to write in it; name another file, or give the user tranche permission to read it: commands work on the database of the service as that user.',
    'error: There is no file /home/found/none.db.',
    '',
  ])
})
