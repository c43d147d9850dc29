// PgBouncer before a server of the tests, over a socket in the server's folder.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Server } from './postgres-server.ts'

const PORT = 6432

/** Starts it; answers the address of a database of the server through it. */
export async function poolTo(
  t: Pick<TestContext, 'after'>,
  server: Server,
  settings: Record<string, string>,
): Promise<(database: string) => string> {
  const { folder } = server
  const { uid, gid } = statSync(join(folder, 'data'))
  const file = (name: string, text: string): string => {
    const path = join(folder, name)
    writeFileSync(path, text)
    chownSync(path, uid, gid)
    return path
  }
  const users = file('pool-users', '"tranche" ""\n')
  const all = {
    listen_port: PORT,
    unix_socket_dir: folder,
    auth_type: 'trust',
    auth_file: users,
    ...settings,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
  const config = file('pool.ini', `[databases]\n* = host=${folder}\n[pgbouncer]\n${lines.join('\n')}\n`)
  // It refuses to run as root, as the server does.
  const child = spawn('pgbouncer', [config], { uid, gid, cwd: folder, stdio: 'ignore' })
  const ended = once(child, 'exit')
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const socket = join(folder, `.s.PGSQL.${PORT}`)
  while (!existsSync(socket)) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`)
    await pause(10)
  }
  return (database) => `postgres://tranche@localhost:${PORT}/${database}?host=${encodeURIComponent(folder)}`
}
