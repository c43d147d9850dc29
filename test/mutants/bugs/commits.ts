// Planted bugs in transactions: locks, what is undone, what is committed together, and what is answered when.

import type { Row } from '../rows.ts'

export const COMMITS: readonly Row[] = [
  {
    name: 'begin-deferred',
    by: ['contract', 'simulate'],
    breaks:
      'A write takes the lock only when it stores something. What it has read may be old by then, and of two writers at once one fails.',
    find: ['): Write {', '  const sql = {', "    begin: db.prepare('begin immediate')"],
    replace: ['): Write {', '  const sql = {', "    begin: db.prepare('begin deferred')"],
  },
  {
    name: 'savepoint-not-undone',
    by: ['contract'],
    breaks: 'A refused write is not undone when others share its commit. Half of it stays on the books.',
    find: ['if (!db.inTransaction) throw error', 'sql.undo.run()'],
    replace: 'if (!db.inTransaction) throw error',
  },
  {
    name: 'answered-before-commit',
    by: ['contract'],
    breaks:
      'A write is answered a turn of the event loop before it is committed. Another process does not see it yet, and a crash in between loses what a partner was told is recorded.',
    edits: [
      {
        find: ['watch.lookNowAndThen()', 'begin.run()'],
        replace: ['watch.lookNowAndThen()', 'if (db.inTransaction) return work()', 'begin.run()'],
      },
      {
        find: 'share.hold(commitTogether)',
        replace: [
          'share.hold(commitTogether)',
          'await new Promise((resolve) => setImmediate(resolve))',
          'if (db.inTransaction) sql.commit.run()',
        ],
      },
      { find: 'if (db.inTransaction) sql.commit.run()', replace: '' },
    ],
  },
  {
    name: 'audit-in-its-own-transaction',
    by: ['contract'],
    breaks:
      'The audit entry of a change to a key is written after it, in another transaction. When that one fails, nobody knows who changed the key.',
    edits: [
      {
        find: ['tx.run(UPDATE_KEY, changedKeyParams(row, key)),', 'addAudit(tx, entry, real),'],
        replace: 'tx.run(UPDATE_KEY, changedKeyParams(row, key)),',
      },
      {
        find: ["{ ...ofTenant(tenantOf(found)), alone: 'tenants' },", ')'],
        replace: [
          "{ ...ofTenant(tenantOf(found)), alone: 'tenants' },",
          ').then(async (changed) => {',
          '  await write(function* (tx) {',
          '    yield* addAudit(tx, entry, (yield* tx.times).real)',
          '  })',
          '  return changed',
          '})',
        ],
      },
    ],
  },
  {
    name: 'audit-before-the-change',
    by: ['contract'],
    breaks:
      'The audit entry of a change to a partner is written before it, in another transaction. The log tells of changes that were refused.',
    edits: [
      {
        find: ['tx.when(reaches, () => following.begin(tx, partner, before)),', 'addAudit(tx, entry, real),'],
        replace: 'tx.when(reaches, () => following.begin(tx, partner, before)),',
      },
      {
        find: 'const changed = await write(',
        replace: [
          'await write(function* (tx) {',
          '  yield* addAudit(tx, entry, (yield* tx.times).real)',
          '})',
          'const changed = await write(',
        ],
      },
    ],
  },
  {
    name: 'pass-lock-shared',
    by: ['contract'],
    breaks: 'The lock of a pass keeps nobody out but this very process. Two schedulers run at once.',
    find: ['refuseOther()', "db.exec('begin immediate')"],
    replace: ['refuseOther()', "db.exec('begin')"],
  },
  {
    name: 'dispute-not-kept',
    by: ['contract'],
    breaks:
      'A dispute about the clock is answered and not kept. The next pass, or another process, buys by a clock in doubt.',
    find: 'yield* putDispute(tx, dispute)',
    replace: '',
  },
  {
    name: 'audit-of-the-wrong-partner',
    by: ['contract'],
    breaks: 'The audit log of a partner has the keys of all: what was done to others is shown beside it.',
    find: 't.partner_slug from api_keys k join tenants t on t.tenant_id = k.tenant_id where k.key_id = subject',
    replace: ':slug',
    in: 'sqlite',
  },
  {
    name: 'refused-write-not-undone',
    by: ['simulate'],
    breaks:
      'A refused write is not undone when its transaction has nothing else in it. Half of it stays on the books.',
    find: ['if (db.inTransaction) sql.rollback.run()', 'return { job, ok: false, error }'],
    replace: 'return { job, ok: false, error }',
  },
  {
    name: 'wake-up-outside-the-transaction',
    by: ['simulate'],
    breaks:
      'A wake-up is written from a rehearsal, in a transaction before that of its executions. It names an execution that does not exist, and after a crash in between it announces purchases that nobody made.',
    edits: [
      {
        find: 'earliest_execution_id text not null references executions',
        replace: 'earliest_execution_id text not null',
      },
      {
        find: ['changeDuePlans: (passId, planIds, decisions) =>', '  write((now) => {'],
        replace: [
          'async changeDuePlans(passId, planIds, decisions) {',
          '  const announced = await this.previewDuePlans(planIds, decisions)',
          '  await write((now) => writeWakeUps(passId, announced, now))',
          '  return write((now) => {',
        ],
      },
      {
        find: [
          'const { fired, ...counts } = runPage(planIds, decisions, timesAt(now))',
          'writeWakeUps(passId, fired, now)',
        ],
        replace: 'const { fired: _, ...counts } = runPage(planIds, decisions, timesAt(now))',
      },
      {
        find: [
          'pageSize.note({ plans: planIds.length, ms: performance.now() - from })',
          'return counts',
          '}),',
        ],
        replace: [
          'pageSize.note({ plans: planIds.length, ms: performance.now() - from })',
          'return counts',
          '})',
          '},',
        ],
      },
    ],
  },
  {
    name: 'server-pass-never-left',
    by: ['simulate'],
    on: 'postgres',
    breaks:
      'On a server a hand that ends its part leaves the lock of the pass held. No process ever begins another pass.',
    edits: [
      {
        find: 'const LEAVE = query<{ held: boolean }>(`select pg_advisory_unlock_shared(${LOCK.pass}, 0) as held`)',
        replace: [
          'const LEAVE = query<{ held: boolean }>(`select pg_advisory_unlock_shared(${LOCK.pass}, 0) as held`)',
          "const LEAVE_NOT = query<{ held: boolean }>('select true as held')",
        ],
      },
      { find: 'tx.get(LEAVE),', replace: 'tx.get(LEAVE_NOT),' },
      { find: 'if (!left?.held || !row) throw new Error(', replace: 'if (!row) throw new Error(' },
    ],
  },
]
