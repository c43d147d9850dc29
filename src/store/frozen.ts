// The row that says that a database is frozen, and how it is written and removed.

import { type Frozen, type FrozenKind, frozenProblem } from '../core/frozen.ts'
import { Problem, usage } from '../core/problem.ts'
import { formatInstant } from '../core/time.ts'
import { addAudit } from './shared/audit.ts'
import { instant, query } from './statement.ts'
import type { AuditEntry, FreezeStore } from './store.ts'
import { type NewRow, putInto, type RowOf } from './tables.ts'
import type { Base, Steps, Tx } from './transaction.ts'

export type FrozenRow = Omit<RowOf<'frozen'>, 'one'>

export const SELECT_FROZEN = 'select kind, at, by, reason, moved_to, replaced from frozen'
/** The state of a database that an earlier version has moved. */
export const SELECT_SEALED = `select 'moved' as kind, at, 'tranche' as by, 'moved to ' || moved_to as reason, moved_to,
  '[]' as replaced from sealed`
export const PUT_FROZEN = query(putInto('frozen'))
const END = query('delete from frozen')

export const frozenOf = (row: FrozenRow | undefined): Frozen | null =>
  row
    ? {
        kind: row.kind as FrozenKind,
        at: instant(row.at),
        by: row.by,
        reason: row.reason,
        movedTo: row.moved_to,
        replaced: JSON.parse(row.replaced) as string[],
      }
    : null

export const frozenParams = ({ movedTo, replaced, ...frozen }: Frozen): NewRow<'frozen'> => ({
  one: 1,
  ...frozen,
  moved_to: movedTo,
  replaced: JSON.stringify(replaced),
})

/** Must be called where nobody else writes. */
export function* putFrozen(tx: Tx, frozen: Frozen, audit: AuditEntry | null): Steps<void> {
  yield* tx.run(PUT_FROZEN, frozenParams(frozen))
  if (audit) yield* addAudit(tx, audit, frozen.at)
}

/** Throws database_moved; with `refuses`, database_frozen as well. */
export function refuseFrozen(frozen: Frozen | null, refuses = false): void {
  if (frozen && (refuses || frozen.kind === 'moved')) throw frozenProblem(frozen)
}

// Alone: a write that has read an unfrozen state is committed before this is, and a later one reads the frozen state.
const ALONE = { alone: 'all' } as const

export const createFreezeStore = ({ look, write }: Base): FreezeStore => ({
  readFrozen: () => look((tx) => tx.frozen),

  freeze: ({ by, reason }, entry) =>
    write(function* (tx) {
      const [{ real }, known] = yield* tx.together(tx.times, tx.frozen)
      if (known) return { frozen: known, isNew: false }
      const frozen: Frozen = { kind: 'operator', at: real, by, reason, movedTo: null, replaced: [] }
      yield* putFrozen(tx, frozen, entry)
      return { frozen, isNew: true }
    }, ALONE),

  resume: (entry) =>
    write(function* (tx) {
      const [{ real }, frozen] = yield* tx.together(tx.times, tx.frozen)
      if (!frozen) return null
      const { kind, at, reason, replaced } = frozen
      yield* tx.run(END)
      yield* addAudit(
        tx,
        { ...entry, detail: { ...entry.detail, kind, since: formatInstant(at), reason, replaced } },
        real,
      )
      return frozen
    }, ALONE),
})

/** The source is frozen before its copy is named, so that the two never both take writes; then naming failed. */
export const movedInVain = (error: unknown, shown: string): Problem =>
  new Problem(
    'storage_failed',
    `${shown} has moved, but giving its copy the name failed: ${(error as Error).message} Run it again, or give ` +
      'the database back with `tranche copy --unseal` once it is certain that nothing uses the copy.',
  )

/** The freeze that `copy --unseal` undoes. Throws usage where nothing has moved or the schema is an earlier one. */
export function takenBack(
  frozen: Frozen | null,
  { name, isBehind }: { name: string; isBehind: boolean },
): Frozen {
  if (frozen?.kind !== 'moved') throw usage(`${name} has not moved.`)
  if (isBehind) throw movedBeforeMigration(frozen.movedTo)
  return frozen
}

/** The refusal to migrate a database that has moved, because a migration is a write. */
export const movedBeforeMigration = (movedTo: string | null): Problem =>
  new Problem(
    'database_moved',
    `This database moved to ${movedTo} and takes no more writes, and this version of tranche would have to migrate it: ` +
      'read it, or take it back, with the version that moved it.',
  )
