// What is fuzzed: the executable in a process of its own, its database opened beside it, and keys of several tenants.

import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { revoke } from '../../src/core/key.ts'
import type { Environment, Tenant } from '../../src/core/partner.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { type Started, startQuietServe } from '../support/process.ts'
import { AUDIT } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Stranger } from './steps.ts'

type Ending = { after: (end: () => Promise<void> | void) => void }
/** `tag` begins every id that this tenant chooses. */
export type Seat = { tenant: Tenant; key: string; tag: string }
export type Player = Record<Environment, Seat>

export type Target = {
  file: string
  served: Started & { url: string }
  store: Store
  players: Player[]
  /** The Authorization header of each kind of caller who is not a player. */
  strangers: Record<Stranger, string | null>
  /** Bytes of memory that the process has, and of disk that the database takes. */
  sizes: () => { residentBytes: number; fileBytes: number }
}

const ARGUMENTS = [
  ...['--tick-every', '1s', '--price-feed', 'static:60000'],
  ...['--webhook-allow-cidr', '127.0.0.0/8', '--log-level', 'warn'],
]

/** Everything ends, and is removed, with `ending`. */
export async function startTarget(ending: Ending, playerCount: number): Promise<Target> {
  const cwd = temporaryFolder(ending)
  const file = join(cwd, 'tranche.db')
  const store = await openStore(file, { clock: machine.clock, create: true })
  ending.after(() => store.close())
  const players: Player[] = []
  for (let n = 0; n < playerCount; n++) {
    await store.addPartner({ partnerSlug: `player-${n}`, name: `Player ${n}` }, AUDIT)
    players.push({ test: await seat(store, n, 'test'), live: await seat(store, n, 'live') })
  }
  const strangers = await strangersOf(store)
  const served = await startQuietServe(ending, ARGUMENTS, { cwd })
  return { file, served, store, players, strangers, sizes: () => sizesOf(served, file) }
}

async function seat(store: Store, n: number, environment: Environment): Promise<Seat> {
  const { tenant, secret } = await keyFor(store, `player-${n}`, environment)
  return { tenant, key: secret, tag: `zt${n}${environment}` }
}

async function keyFor(store: Store, slug: string, environment: Environment) {
  const tenant = await store.findTenant(slug, environment)
  if (!tenant) throw new Error(`no tenant ${slug} ${environment}`)
  const { record, secret } = issueKey({ tenant, label: null, lifetimeMs: null }, machine)
  await store.addKey(record, AUDIT)
  return { tenant, secret, record }
}

async function strangersOf(store: Store): Promise<Target['strangers']> {
  await store.addPartner({ partnerSlug: 'disabled', name: 'Disabled' }, AUDIT)
  const [revoked, disabled] = [
    await keyFor(store, 'disabled', 'test'),
    await keyFor(store, 'disabled', 'live'),
  ]
  const { keyId } = revoked.record
  await store.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT)
  await store.changePartner('disabled', (seen) => ({ ...seen, status: 'disabled' as const }), AUDIT)
  const unknown = issueKey({ tenant: revoked.tenant, label: null, lifetimeMs: null }, machine).secret
  return {
    none: null,
    malformed: 'Basic YTpi',
    unknown: `Bearer ${unknown}`,
    revoked: `Bearer ${revoked.secret}`,
    disabled: `Bearer ${disabled.secret}`,
  }
}

function sizesOf({ child }: Started, file: string): ReturnType<Target['sizes']> {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
  const kib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1])
  const fileBytes = [file, `${file}-wal`].map((name) => statSync(name).size).reduce((sum, size) => sum + size)
  return { residentBytes: kib * 1024, fileBytes }
}
