// Partners and users on a server, where it differs from a file: how a partner's schedules are updated, and where an
// erased e-mail may remain.

import type { Erasure } from '../erasures.ts'
import type { Following } from '../shared/accounts.ts'
import { lockSchedules } from '../shared/ledger.ts'
import { IS_AWAKE, leastInstructionOf } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { Remains } from '../store.ts'
import { type Base, runRows, type Step, type Steps, type Tx } from '../transaction.ts'

// Updates a partner's schedules, of which there may be a million, after its status, hold or minimum has changed, page
// by page. The change is in force at once, because every page of a pass reads the partner itself (../shared/pages.ts);
// the updates keep the indexes of due plans in step. Until the last page, a row records the progress, so that the next
// pass continues if the process dies (docs/decisions/commits.md#a-hold-of-many-plans).

/** Plans in one transaction, which locks their schedules meanwhile. */
const PLANS_PER_PAGE = 500

type Reached = { tenant_id: bigint; partner_plan_id: string }

const BEGIN = query(
  `insert into schedules_behind (partner_slug) values (:slug)
   on conflict (partner_slug) do update set tenant_id = 0, partner_plan_id = ''`,
)
const LOCK = query<Reached>('select * from schedules_behind where partner_slug = :slug for update')
const LOCK_UNLESS_BUSY = query<Reached>(
  'select * from schedules_behind where partner_slug = :slug for update skip locked',
)
const BEHIND = query<{ partner_slug: string }>(
  'select partner_slug from schedules_behind order by partner_slug',
)
const TENANTS_OF_PARTNER = query<{ tenant_id: bigint }>(
  'select tenant_id from tenants where partner_slug = :slug order by tenant_id',
)
const PLANS_OF_TENANT = query<{ plan_id: bigint; partner_plan_id: string }>(
  `select plan_id, partner_plan_id from plans where tenant_id = :tenant and partner_plan_id > :after
   order by partner_plan_id limit :limit`,
)
const FLOOR = leastInstructionOf('r.min_tranche', 's.budget')
const FOLLOW = query(
  `update schedules s set awake = ${IS_AWAKE}, floor = ${FLOOR}
   from plans p join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
   where s.plan_id = any(:plan_ids::bigint[]) and p.plan_id = s.plan_id
     and (s.awake <> ${IS_AWAKE} or s.floor <> ${FLOOR})`,
)
const NOTE = query(
  'update schedules_behind set tenant_id = :tenant, partner_plan_id = :after where partner_slug = :slug',
)
const END = query('delete from schedules_behind where partner_slug = :slug')

/** Updates one more page. False when nothing is left, or when another process is working on it. */
function* goOn(tx: Tx, slug: string, lock: typeof LOCK): Steps<boolean> {
  const [reached, tenants] = yield* tx.together(tx.get(lock, { slug }), tx.all(TENANTS_OF_PARTNER, { slug }))
  if (!reached) return false
  const tenant = tenants.find(({ tenant_id }) => tenant_id >= reached.tenant_id)?.tenant_id
  if (tenant === undefined) {
    yield* tx.run(END, { slug })
    return false
  }
  const after = tenant === reached.tenant_id ? reached.partner_plan_id : ''
  const plans = yield* tx.all(PLANS_OF_TENANT, { tenant, after, limit: PLANS_PER_PAGE })
  const plan_ids = plans.map(({ plan_id }) => Number(plan_id))
  const last = plans.length < PLANS_PER_PAGE ? null : plans.at(-1)
  yield* tx.together(
    lockSchedules(tx, plan_ids),
    tx.run(FOLLOW, { plan_ids }),
    tx.run(NOTE, { slug, tenant: last ? tenant : tenant + 1n, after: last?.partner_plan_id ?? '' }),
  )
  return true
}

export function createFollowing({ look, write }: Base): Following & {
  /** Completes the updates that no process is working on any more. */
  finishLeft: () => Promise<void>
} {
  async function follow(slug: string, lock: typeof LOCK): Promise<void> {
    const rows = await look((tx) => tx.all(TENANTS_OF_PARTNER, { slug }))
    const tenants = rows.map(({ tenant_id }) => Number(tenant_id))
    while (await write((tx) => goOn(tx, slug, lock), { tenants }));
  }

  return {
    begin: (tx, { partnerSlug: slug }) => tx.run(BEGIN, { slug }),
    finish: (slug) => follow(slug, LOCK),

    async finishLeft() {
      const left = await look((tx) => tx.all(BEHIND))
      for (const { partner_slug } of left) await follow(partner_slug, LOCK_UNLESS_BUSY)
    },
  }
}

/**
 * From the commit on, no query finds an erased e-mail. The bytes stay for a while: in the dead row until autovacuum
 * frees its place and another row takes it, in the log until its segment is reused, on every standby and in every
 * archive. A vacuum here would not help: it frees the place without overwriting it, and the log would keep the text
 * anyway. So the answer is never 'nowhere'.
 */
export const overwriteNothing = async (): Promise<Remains> => 'server'

const REMEMBER = query(
  ({ rows }) => `insert into tranche_erasures.erasures (sha256, at)
    select sha256, at from ${rows('rows', { sha256: 'text', at: 'integer' }, 'n')} on conflict do nothing`,
)

/** The erasures are in a schema of their own, which stays when the database's schema is replaced by a copy. */
export const rememberOnServer = (tx: Tx, erasures: readonly Erasure[]): Step<unknown> =>
  runRows(tx, REMEMBER, erasures)
