// Brings a partner's schedules in line with its status, hold and minimum: on a file all of them at once, and only those
// that differ.

import { read } from 'node:fs'
import { promisify } from 'node:util'
import type { KeySeen } from '../../core/key.ts'
import type { Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import type { User } from '../../core/user.ts'
import {
  type ConsentRow,
  consentOf,
  consentParams,
  erasedParams,
  type ListedUserRow,
  listedUserOf,
  type SeenKeyRow,
  seenKeyOf,
  type UserRow,
  userOf,
  userParams,
} from '../rows/accounts.ts'
import { type PlanRow, planOf } from '../rows/ledger.ts'
import type { Following } from '../shared/accounts.ts'
import {
  ERASE_USER,
  KEEP_CONSENT,
  LISTED_USER,
  LISTED_USERS,
  SELECT_SEEN_KEY,
  SELECT_USER,
} from '../sql/accounts.ts'
import { AWAKE, leastInstructionOf } from '../sql/ledger.ts'
import type { KeyStore, UserStore } from '../store.ts'
import { query } from '../transaction.ts'
import { askTogether } from '../writes.ts'
import type { AuditLog } from './audit.ts'
import { type Connection, createMemory, type Database, type Memory, whenFree } from './file/connection.ts'
import { busy } from './file/errors.ts'
import type { StopCounts, Stops } from './plans.ts'
import type { TenantTime } from './tenant-time.ts'

/** The plans of a partner, in both of its environments. */
const PLANS_OF_PARTNER =
  '(select plan_id from plans join tenants using (tenant_id) where partner_slug = :slug)'
const WAKE = query(
  `update schedules set awake = not awake where plan_id in ${PLANS_OF_PARTNER} and awake <> ${AWAKE}`,
)
const FLOOR = leastInstructionOf(':min_tranche', 'budget')
const SET_FLOOR = query(
  `update schedules set floor = ${FLOOR} where plan_id in ${PLANS_OF_PARTNER} and floor <> ${FLOOR}`,
)

export const FOLLOWING: Following = {
  begin: (tx, { partnerSlug: slug, status, held, minTranche }, seen) =>
    tx.together(
      tx.when(status !== seen.status || held !== seen.held, () => tx.run(WAKE, { slug })),
      tx.when(minTranche !== seen.minTranche, () => tx.run(SET_FLOOR, { slug, min_tranche: minTranche })),
    ),
  finish: async () => {},
}

// How a call finds its key on a file, by the hash of its secret: the secret itself is stored nowhere. A server is asked
// anew for every call (../../postgres/accounts/keys.ts); a file tells cheaply whether anybody has written to it.

/** A cache of keys and their partners: every call looks one up. */
type KeyMemory = Memory<Omit<KeySeen, 'now'>>

/** More keys than a minute's calls bring; each takes a few hundred bytes. */
const KEYS_REMEMBERED = 10_000

export const createKeyMemory = (db: Database): KeyMemory => createMemory(db, KEYS_REMEMBERED)

export function createKeyFinder({ db, present, look }: Connection, memory: KeyMemory): KeyStore['findKey'] {
  const bySecret = db.prepare<[string], SeenKeyRow>(`${SELECT_SEEN_KEY} where k.key_sha256 = ?`)
  const seen = (sha256: string) => {
    const row = bySecret.get(sha256)
    return row ? seenKeyOf(row) : null
  }
  return askTogether((hashes) =>
    look(() => {
      const known = memory.recall(hashes, seen)
      const now = present()
      return known.map((one) => one && { ...one, now })
    }),
  )
}

// The users of a tenant.

type Decide = Parameters<UserStore['changeUser']>[2]
type Step = { stopping: bigint | null; changed: ({ user: User } & StopCounts) | null }
type Parts = { stops: Stops; audit: AuditLog; time: TenantTime; file: string; held: () => number }

export function createUserStore(connection: Connection, parts: Parts): UserStore {
  const { db, read } = connection
  const { stops, audit, time, file, held } = parts
  const sql = {
    find: db.prepare<object, UserRow>(SELECT_USER),
    list: db.prepare<object, ListedUserRow>(LISTED_USERS),
    put: db.prepare(
      `insert into users (tenant_id, partner_user_id, email, auth_provider, consent_version, consent_timestamp,
         status, created_at, updated_at, digest)
       values (:tenant_id, :partner_user_id, :email, :auth_provider, :consent_version, :consent_timestamp,
         :status, :created_at, :updated_at, :digest)
       on conflict (tenant_id, partner_user_id) do update set email = :email, auth_provider = :auth_provider,
         consent_version = :consent_version, consent_timestamp = :consent_timestamp, status = :status,
         updated_at = :updated_at, digest = :digest
       returning user_id`,
    ),
    keepConsent: db.prepare(KEEP_CONSENT),
    one: db.prepare<object, ListedUserRow>(LISTED_USER),
    consents: db.prepare<[bigint], ConsentRow>(
      'select * from consents where user_id = ? order by received_at, consent_id',
    ),
    plansOf: db.prepare<[bigint], PlanRow>(
      `select p.*, u.partner_user_id from plans p join users u using (user_id) where p.user_id = ? order by p.plan_id`,
    ),
  }

  /** One transaction of a change. What is left of a disable under way, `stopping`, is finished before the answer. */
  function change(tenant: Tenant, partnerUserId: string, decide: Decide, now: Instant): Step {
    const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const row = sql.find.get(scope)
    const seen = row ? userOf(row) : null
    const { user, stopsPlans } = decide(seen, now)
    const stopping = row && stops.isStopping(row.user_id) ? row.user_id : null
    // Linked again only when all of the user's plans are stopped.
    if (stopping !== null && user.status === 'linked') return { stopping, changed: null }
    if (user !== seen) put(user, { tenant, row }, now)
    const changed = { user, plansPaused: 0, executionsCancelled: 0 }
    if (!stopsPlans || (stopping === null && seen?.status === 'disabled')) return { stopping: null, changed }
    if (stopping !== null) return { stopping, changed }
    const { user_id } = sql.find.get(scope) as UserRow
    const stopped = stops.begin(tenant, user_id, now)
    return { stopping: stopped ? null : user_id, changed: { ...changed, ...stopped } }
  }

  function put(
    user: User,
    { tenant, row }: { tenant: Tenant; row: UserRow | undefined },
    now: Instant,
  ): void {
    const { user_id } = sql.put.get(userParams(user, tenant.tenantId, row)) as { user_id: bigint }
    sql.keepConsent.run(consentParams(user, user_id, now))
  }

  return {
    async changeUser(tenant, partnerUserId, decide) {
      for (;;) {
        const { stopping, changed } = await time.write(tenant, (now) =>
          change(tenant, partnerUserId, decide, now),
        )
        const stopped = stopping === null ? null : await stops.finish(tenant, stopping)
        if (changed) return { ...changed, ...stopped }
      }
    },

    listUsers: (tenant, { after, limit }) =>
      read(() => sql.list.all({ tenant: tenant.tenantId, after: after ?? 0, limit }).map(listedUserOf)),

    findUser: (tenant, partnerUserId) =>
      read(() => {
        const row = sql.one.get({ tenant: tenant.tenantId, partner_user_id: partnerUserId })
        if (!row) return null
        return {
          ...listedUserOf(row),
          consents: sql.consents.all(row.user_id).map(consentOf),
          plans: sql.plansOf.all(row.user_id).map(planOf),
        }
      }),

    eraseUser: createEraser(connection, { audit, file, held }),
  }
}

// Erases a user's personal data, from the rows and from the bytes of the file.

/** `held` gives a descriptor of the file that stays open until after the database is closed. */
type Place = { audit: AuditLog; file: string; held: () => number }

function createEraser({ db, read: look, write }: Connection, place: Place): UserStore['eraseUser'] {
  const sql = {
    find: db.prepare<object, UserRow>(SELECT_USER),
    erase: db.prepare(ERASE_USER),
    elsewhere: db.prepare<object, { one: bigint }>(
      'select 1 as one from users where email = :text or instr(partner_user_id, :text) > 0 limit 1',
    ),
  }
  return async (tenant, partnerUserId, entry) => {
    const scope = { tenant: tenant.tenantId, partner_user_id: partnerUserId }
    const { before, now } = await write((at) => {
      const row = sql.find.get(scope)
      if (!row) throw new Problem('user_not_found', `User ${partnerUserId} not found.`)
      sql.erase.run(erasedParams(row, at))
      place.audit.add(entry, at)
      return { before: userOf(row), now: at }
    })
    const text = before.email
    // Text that another row holds as well stays in the file, however the file is written.
    const elsewhere = text !== null && (await look(() => sql.elsewhere.get({ text }) !== undefined))
    const overwritten = await overwrite(db, place, elsewhere ? null : text)
    const user = { ...before, email: null, authProvider: null, updatedAt: now }
    const remains = elsewhere ? 'other_row' : overwritten ? 'nowhere' : 'log'
    return { user, erasedAt: now, remains }
  }
}

/**
 * Moves the log into the file and empties it. What the update left behind is zeros (secure_delete); if the text is
 * still there, left by a version that did not write zeros, the whole file is rewritten.
 */
async function overwrite(db: Database, { file, held }: Place, text: string | null): Promise<boolean> {
  if (file === ':memory:') return true
  try {
    await emptyLog(db)
    if (text === null || !(await holds(held(), text))) return true
    await whenFree(() => db.exec('vacuum'))
    await emptyLog(db)
    return !(await holds(held(), text))
  } catch (error) {
    // The row is erased all the same; a later checkpoint, or the command again, empties the log.
    if (error instanceof Problem && error.code === 'database_locked') return false
    throw error
  }
}

const emptyLog = (db: Database): Promise<void> =>
  whenFree(() => {
    const [row] = db.pragma('wal_checkpoint(truncate)') as { busy: bigint }[]
    // A reader still needs the log: tried again like any other lock.
    if (row?.busy !== 0n) throw busy()
  })

/** Whether an open file contains a text; read in pieces that overlap by its length. */
async function holds(descriptor: number, text: string): Promise<boolean> {
  const sought = Buffer.from(text, 'utf8')
  const chunk = Buffer.alloc(CHUNK_BYTES)
  let tail = Buffer.alloc(0)
  for (let at = 0; ; ) {
    const { bytesRead } = await readAt(descriptor, chunk, 0, chunk.length, at)
    if (bytesRead === 0) return false
    const piece = Buffer.concat([tail, chunk.subarray(0, bytesRead)])
    if (piece.includes(sought)) return true
    tail = piece.subarray(Math.max(0, piece.length - sought.length + 1))
    at += bytesRead
  }
}

const CHUNK_BYTES = 2 ** 20
/** A stream would close the descriptor when it is left. */
const readAt = promisify(read)
