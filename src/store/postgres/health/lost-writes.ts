// Writes that the server has lost after they were answered: what is on record of them, and the decision to go on.

import type { LostWrites } from '../../../core/lost-writes.ts'
import { Problem } from '../../../core/problem.ts'
import type { LostWriteStore } from '../../lost-writes.ts'
import { instant } from '../../rows/instant.ts'
import { addAudit } from '../accounts/audit.ts'
import { UNKNOWN } from '../server/acknowledged.ts'
import type { Connection } from '../server/connection.ts'
import { HISTORY_SQL, type History } from '../server/month-gate.ts'
import { query } from '../server/statement.ts'

type Row = {
  lost_id: bigint
  found_at: bigint
  writes: bigint
  first_at: bigint
  last_at: bigint
  tenants: string
  server: string
}

type Seen = History & { at: bigint | null; xid: string | null }

// What another process has committed is visible only once it is answered, so the newest entry of the audit log stands
// for what operators were told. Of its transaction's number, a row keeps the lower half.
const SEEN = query<Seen>(
  `select ${HISTORY_SQL}, a.at, (s.top - (s.top - a.half) % (1::bigint << 32))::text as xid
   from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as top) s
   left join (select at, xmin::text::bigint as half from audit order by audit_id desc limit 1) a on true`,
)
const UNDECIDED = query<Row>('select * from lost_writes where decided_at is null order by lost_id')
const DECIDE = query<Row>('update lost_writes set decided_at = :now where decided_at is null returning *')

/** What is on record, without asking what became of the server. */
export const recordedLoss = async ({ look }: Connection): Promise<LostWrites | null> =>
  inAll(await look((tx) => tx.all(UNDECIDED)))

/** Remembers the newest entry of the audit log as if this process had written it. */
function noteAudit({ acknowledged }: Connection): (seen: Seen) => void {
  let noted: string | null = null
  return ({ at, xid, timeline, memory }) => {
    if (at === null || xid === null || xid === noted) return
    noted = xid
    acknowledged.note({ mark: { xid, position: UNKNOWN, timeline, memory }, at: instant(at), tenants: [] })
  }
}

export const createLostWriteStore = (connection: Connection): LostWriteStore => ({
  readLostWrites: lossReader(connection),

  resume: (entry) =>
    connection.write(
      async (tx) => {
        const { real } = await tx.times
        const lost = inAll(await tx.all(DECIDE, { now: real }))
        if (!lost) throw new Problem('usage', 'Nothing stands still: there are no lost writes to decide on.')
        const { writes, tenants, server } = lost
        await addAudit(tx, { ...entry, detail: { ...entry.detail, writes, tenants, server } }, real)
        return lost
      },
      // Whoever has begun to fire or to hand out has seen what was undecided.
      { alone: 'all' },
    ),
})

function lossReader(connection: Connection): LostWriteStore['readLostWrites'] {
  const { acknowledged, look } = connection
  const note = noteAudit(connection)
  return async () => {
    const seen = await look((tx) => tx.get(SEEN))
    if (seen && acknowledged.isInDoubt(seen)) await acknowledged.examine()
    if (seen) note(seen)
    return recordedLoss(connection)
  }
}

/** Several processes find the same loss, each what it was told itself. */
function inAll(rows: readonly Row[]): LostWrites | null {
  const [newest] = rows.toSorted((a, b) => Number(b.lost_id - a.lost_id))
  if (!newest) return null
  const tenants = rows.flatMap(({ tenants }) => (tenants === '' ? [] : tenants.split(', ')))
  return {
    lostId: Number(newest.lost_id),
    foundAt: instant(newest.found_at),
    writes: rows.reduce((sum, { writes }) => sum + Number(writes), 0),
    firstAt: instant(least(rows.map(({ first_at }) => first_at))),
    lastAt: instant(-least(rows.map(({ last_at }) => -last_at))),
    tenants: [...new Set(tenants)].sort().join(', '),
    server: newest.server,
  }
}

const least = (numbers: readonly bigint[]): bigint => numbers.reduce((a, b) => (a < b ? a : b))
