// Planted bugs in copying a database, its seal, and restoring.

import type { Row } from '../rows.ts'

export const COPIES: readonly Row[] = [
  {
    name: 'last-block-not-carried',
    by: ['copy'],
    breaks:
      'A copy forgets the rows at the end of every table. The newest trades are gone, and the books are short by them.',
    find: 'if (rows > 0) yield { text, rows }',
    replace: '',
  },
  {
    name: 'last-lines-of-a-server-not-read',
    by: ['copy'],
    breaks:
      'What a server sends last of a table is not read. Both sides of a verification would leave it out.',
    find: ['void this.ended.then(() => {', '  this.#cut()'],
    replace: 'void this.ended.then(() => {',
  },
  {
    name: 'issued-forgotten-by-a-restore',
    by: ['copy'],
    breaks:
      'A restore forgets what was issued since the backup. Numbers that customers have are given again.',
    find: 'for (const one of sinceCopy?.issued ?? [])',
    replace: 'for (const one of sinceCopy?.issued.slice(1) ?? [])',
  },
  {
    name: 'verification-compares-nothing',
    by: ['copy'],
    breaks:
      'The copy is taken at its word: its rows are compared with themselves. A copy that differs gets its name.',
    find: 'const [here, there] = [await digestOf(source, table, read), await digestOf(target, table, read)]',
    replace:
      'const [here, there] = [await digestOf(source, table, read), await digestOf(source, table, read)]',
  },
  {
    name: 'faults-are-copied',
    by: ['copy'],
    breaks:
      'What the check finds wrong in a copy does not keep it from its name. A ledger that does not add up moves on.',
    find: ['const [first] = faults', 'if (!first) return'],
    replace: ['const [first] = faults', 'if (!first || faults.length > 0) return'],
  },
  {
    name: 'seal-without-deletes',
    by: ['copy'],
    breaks:
      'The seal of a file lets rows be deleted. A sandbox that is reset is gone from a database that nobody was to change.',
    find: "const WRITES = ['insert', 'update', 'delete'] as const",
    replace: "const WRITES = ['insert', 'update'] as const",
  },
  {
    name: 'seal-without-one-table',
    by: ['copy'],
    breaks:
      'The seal of a file leaves out the trades. A confirmation may be recorded in a database that has moved.',
    find: 'for (const table of tablesOf(db))',
    replace: "for (const table of tablesOf(db).filter((name) => name !== 'trades'))",
  },
  {
    name: 'seal-of-a-server-without-updates',
    by: ['copy'],
    breaks:
      'The seal of a server lets rows be updated. Two databases hand out the same instructions, and they are bought twice.',
    find: 'create trigger a_sealed before insert or update or delete or truncate on ${table}',
    replace: 'create trigger a_sealed before insert or delete or truncate on ${table}',
  },
  {
    name: 'server-not-held',
    by: ['copy'],
    breaks:
      "A server's writers go on while it is copied to be sealed. What they were answered after the snapshot is in no database.",
    edits: [
      {
        find: 'select pg_advisory_lock(${LOCK.all}, 0)',
        replace: 'select pg_advisory_lock(${LOCK.copy}, 0)',
      },
      {
        find: "lock table ${tables.join(', ')} in share row exclusive mode",
        replace: "lock table ${tables.join(', ')} in access share mode",
      },
    ],
  },
  {
    name: 'never-sealed',
    by: ['copy'],
    breaks:
      'The source of a move is never sealed, though the command says that it is. Both take writes, and every plan is bought twice.',
    find: [
      'if (sealed && !seal) await source.setSeal(sealed)',
      "else if (seal && kind === 'move') await source.keepSeal()",
    ],
    replace: '',
  },
  {
    name: 'numbers-begin-anew',
    by: ['copy'],
    breaks:
      'What a copied server numbers begins at 1 again. The first partner or plan that is added collides with an old one.',
    find: "select setval(pg_get_serial_sequence('${name}', '${key}'), coalesce(max(${key}), 0) + 1, false) from ${name}",
    replace: "select setval(pg_get_serial_sequence('${name}', '${key}'), 1, false) from ${name}",
  },
  {
    name: 'a-copy-replaces',
    by: ['copy'],
    breaks: 'A copy takes the place of a database that is there. A slip in an address ends a service.',
    edits: [
      {
        find: 'if (!replace && !(await isEmpty(client, SCHEMA))) throw taken(server)',
        replace: "if (!replace && server === '' && !(await isEmpty(client, SCHEMA))) throw taken(server)",
      },
      {
        find: 'if (!replace) throw taken(server)',
        replace: "if (!replace && server === '') throw taken(server)",
      },
    ],
  },
  {
    name: 'sealed-source-goes-anywhere',
    by: ['copy'],
    breaks:
      'A sealed database can be copied to any place. Each copy takes writes, beside the one that it moved to.',
    find: "if (seal && kind === 'move' && seal.movedTo !== to.shownInFull) throw sealedProblem(seal)",
    replace: "if (seal && kind === 'move' && seal.movedTo === '') throw sealedProblem(seal)",
  },
  {
    name: 'null-becomes-a-text',
    by: ['copy'],
    breaks:
      'A value that is null in one store is a text in the other. Keys that never end have an end, and orders a reason.',
    find: 'if (field === NULL) return null',
    replace: "if (field === NULL && kind !== 'text') return null",
  },
  {
    name: 'replaced-while-in-use',
    by: ['copy'],
    breaks:
      'A restore replaces a database under the services that use it. They go on with what they remember of the old one.',
    find: 'if (performance.now() > until) throw inUse(server, await usersOf(client))',
    replace: 'if (performance.now() > until) return',
  },
  {
    name: 'restore-over-a-seal',
    by: ['copy'],
    breaks:
      'A restore takes the place of a sealed file without being asked to. An old state of a service that has moved takes writes.',
    find: 'if (!seal) return',
    replace: 'if (!seal || seal.at > 0) return',
  },
  {
    name: 'seal-on-one-disk',
    by: ['copy'],
    breaks:
      'The seal of a server is believed when a cancelled commit says so. A failover forgets it, and two databases take writes.',
    find: [
      'explaining(server, async () => {',
      '  await setSeal(client, seal)',
      '  await commitAlone(client)',
    ],
    replace: [
      'explaining(server, async () => {',
      '  await setSeal(client, seal)',
      "  await client.query('commit')",
    ],
  },
  {
    name: 'seal-of-another-copy-believed',
    by: ['copy'],
    breaks:
      'A copy that finds its source sealed does not ask whether a standby knows of that. A failover forgets the seal of a copy that was ended.',
    find: "else if (seal && kind === 'move') await source.keepSeal()",
    replace: '',
  },
  {
    name: 'restore-needs-no-resume',
    by: ['copy'],
    breaks:
      'A database that was put back does not stand still. What was cancelled, held or erased since the backup goes on at the next tick.',
    find: "db.prepare(insertInto('standstill')).run(standstillParams(restored))",
    replace: '',
  },
  {
    name: 'restore-to-a-server-needs-no-resume',
    by: ['copy'],
    breaks:
      'A database that was put back on a server does not stand still. What was cancelled, held or erased since the backup goes on at the next tick.',
    find: "await insertRow(client, 'standstill', standstillParams({ at: now, copy, replaced }))",
    replace: '',
  },
  {
    name: 'earlier-stops-forgotten',
    by: ['copy'],
    breaks:
      'Of two restores in a row, the second knows nothing of what had stopped before the first. A plan cancelled on Monday fires on Wednesday.',
    find: 'const files = [{ name: first, read }, ...earlier.filter(existsSync).map((name) => ({ name, read: name }))]',
    replace:
      'const files = [{ name: first, read }, ...earlier.slice(earlier.length).map((name) => ({ name, read: name }))]',
  },
  {
    name: 'erased-again-whatever-came-since',
    by: ['copy'],
    breaks:
      'An e-mail that a partner has given anew after an erasure is erased by the next restore, and is lost.',
    find: 'if (at < Number(updatedAt)) continue',
    replace: 'if (at === Number.NEGATIVE_INFINITY) continue',
  },
  {
    name: 'erasures-not-done-again',
    by: ['copy'],
    breaks:
      'A restore brings back the e-mail of a user who was erased since the backup: personal data that was to be gone.',
    find: 'let erasedAgain = await store.eraseAgain(latestErasures(erasures), entryOf)',
    replace:
      'let erasedAgain = await store.eraseAgain(latestErasures(erasures.slice(erasures.length)), entryOf)',
  },
  {
    name: 'executions-not-carried',
    by: ['copy'],
    breaks:
      'An instruction that an operator has cancelled since the backup is handed out again, though stops were to be carried over.',
    find: "where o.cancelled_at is not null and n.status in ('pending', 'sent')",
    replace: "where o.cancelled_at is null and n.status in ('pending', 'sent')",
  },
]
