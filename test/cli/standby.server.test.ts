// A command whose commit is held back for a standby says what it waits for, and goes on once there is one.

import assert from 'node:assert/strict'
import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { hasOwnMachine, onOwnMachine } from '../support/machines.ts'
import type { Server } from '../support/postgres-server.ts'
import { PASSWORD, withPasswords } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'

const setStandby = async (server: Server, name: string): Promise<void> => {
  await server.ask(`alter system set synchronous_standby_names = '${name}'`)
  await server.ask('select pg_reload_conf()')
}

test('init and a tick say after some seconds that the server waits for a standby', async (t) => {
  if (!hasTool(t, 'postgres') || !hasOwnMachine(t)) return
  const { server, port } = await withPasswords(t)
  chmodSync(server.folder, 0o755)
  await setStandby(server, 'gone')
  const db = `postgres://app:${PASSWORD}@localhost:${port}/app?host=${server.folder}`
  const script = `
    export TRANCHE_DB='${db}'
    tell() {
      while ! grep -qs 'waits for a standby' "/mnt/$1"; do sleep 0.2; done
      : > ${server.folder}/$1-waits
      wait $!
    }
    "$TRANCHE" init --yes --price-feed static:60000 --scheduler none > /mnt/init 2>&1 &
    tell init
    : > ${server.folder}/init-ended
    while [ ! -e ${server.folder}/again ]; do sleep 0.2; done
    "$TRANCHE" tick > /mnt/tick 2>&1 &
    tell tick
    cat /mnt/init; echo ---; cat /mnt/tick`
  const done = onOwnMachine(t, script)
  const ended = done.then(({ out, err }) => assert.fail(`it ended before: ${out}${err}`))
  ended.catch(() => {})
  const until = async (name: string): Promise<void> => {
    while (!existsSync(join(server.folder, name))) await pause(100)
  }
  await Promise.race([until('init-waits'), ended])
  await setStandby(server, '')
  await Promise.race([until('init-ended'), ended])
  await setStandby(server, 'gone')
  writeFileSync(join(server.folder, 'again'), '')
  await Promise.race([until('tick-waits'), ended])
  await setStandby(server, '')
  const { code, out, err } = await done
  assert.deepEqual([code, err], [0, ''], out)
  const [init = '', tick = ''] = out.split('---\n')
  const told =
    /postgres:\/\/app:\*\*\*@localhost.* waits for a standby before it answers \(synchronous_standby_names = gone\)/
  assert.match(init, told)
  assert.match(init, /^done .*, the database$/m)
  assert.match(tick, told)
})
