// A server that asks for a password, as one over a network does.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { freePort } from './free-port.ts'
import { type Server, startServer } from './postgres-server.ts'

/** What no output may hold. */
export const PASSWORD = 'canary-7Zq2kP0sXw4tB9'

export type Guarded = {
  server: Server
  port: string
  settings: Record<string, string>
  /** The address of a database for the user `app`, who owns the one of that name. */
  url: (password: string, database?: string) => string
}

/** A server on a port of this machine, with a user `app` who needs the password. */
export async function withPasswords(t: TestContext, more: Record<string, string> = {}): Promise<Guarded> {
  const port = String(await freePort())
  const settings = { listen_addresses: '127.0.0.1', port, ...more }
  const server = await startServer(settings)
  t.after(server.stop)
  await server.ask(`create role app login password '${PASSWORD}'`)
  await server.ask('create database app owner app')
  const rules = join(server.folder, 'data/pg_hba.conf')
  writeFileSync(
    rules,
    `host all app 127.0.0.1/32 scram-sha-256\nlocal all app scram-sha-256\n${readFileSync(rules, 'utf8')}`,
  )
  await server.ask('select pg_reload_conf()')
  const url = (password: string, database = 'app') =>
    `postgres://app:${password}@127.0.0.1:${port}/${database}`
  return { server, port, settings, url }
}
