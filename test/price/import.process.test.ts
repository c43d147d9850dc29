// A long import beside everything else: its memory, its death, a second one, and a service that continues to write.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import SQLite from 'better-sqlite3'
import { price } from '../../src/core/money.ts'
import { HOUR_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { finish, type Program, SOURCE, type Started, start } from '../support/process.ts'
import { T0 } from '../support/service.ts'
import { csv, newDatabase, rowsIn, walk, writeLong } from './histories.ts'

/** Waits until an import has staged rows. Fails when it ends before. */
async function underWay({ hasEnded, err }: Started, db: string): Promise<void> {
  while (rowsIn(db).staged === 0) {
    assert.ok(!hasEnded(), `the import is still running: ${err()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Stops an import where it blocks no writer. */
async function stopBetweenWrites({ child }: Started, file: string): Promise<void> {
  const db = new SQLite(file, { timeout: 0 })
  for (let locked = true; locked; ) {
    child.kill('SIGSTOP')
    try {
      db.exec('begin immediate; rollback')
      locked = false
    } catch {
      child.kill('SIGCONT')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  db.close()
}

/** Runs an import and answers the peak memory of its process, in KiB. */
async function peakOf(t: TestContext, rows: number): Promise<number> {
  const { folder, db } = await newDatabase(t)
  const file = join(folder, 'long.csv')
  await writeLong(file, rows)
  const note = 'process.on("exit",()=>process.stderr.write("peak "+process.resourceUsage().maxRSS))'
  // A small heap measures live data rather than garbage; all rows at once would exceed it.
  const flags = [
    '--max-semi-space-size=1',
    '--max-old-space-size=24',
    '--import',
    `data:text/javascript,${note}`,
  ]
  const [node, ...source] = SOURCE
  const program: Program = [node, ...flags, ...source]
  const { out, err } = await finish(t, importing(db, file), { cwd: folder, program })
  assert.deepEqual(JSON.parse(out), { rows, added: rows, duplicates: 0 }, err)
  assert.equal(rowsIn(db).prices, rows)
  return Number(/peak (\d+)/.exec(err)?.[1])
}

const importing = (db: string, file: string): string[] => ['--db', db, '--json', 'price', 'import', file]

describe('a long import', { concurrency: true }, () => {
  test('takes no more memory for twenty times the rows', async (t) => {
    const short = await peakOf(t, 10_000)
    const long = await peakOf(t, 200_000)
    // The page cache of SQLite fills up to its 32 MiB, and nothing else grows.
    assert.ok(short > 0 && long / short < 2, `${long} KiB over ${short} KiB`)
  })

  test('that is killed in the middle leaves no price, and the next one starts afresh', async (t) => {
    const { folder, db } = await newDatabase(t)
    const file = join(folder, 'long.csv')
    await writeLong(file, 50_000)
    const killed = start(t, importing(db, file), { cwd: folder })
    await underWay(killed, db)
    killed.child.kill('SIGKILL')
    assert.equal(await killed.ended, 'SIGKILL')
    assert.equal(rowsIn(db).prices, 0)

    const few = walk(3, { start: plus(T0, -HOUR_MS) })
    writeFileSync(file, csv(few))
    const next = await finish(t, importing(db, file), { cwd: folder })
    assert.deepEqual(JSON.parse(next.out), { rows: 3, added: 3, duplicates: 0 })
    assert.deepEqual(rowsIn(db), { prices: 3, staged: 0 })
  })

  test('keeps a second one out and lets a service write all the while', async (t) => {
    const { folder, db } = await newDatabase(t)
    const file = join(folder, 'long.csv')
    await writeLong(file, 50_000)
    const { machine, setClock } = machineAt(plus(T0, -1_000_000))
    const store = await openStore(db, { clock: machine.clock, create: false })
    t.after(() => store.close())
    const first = start(t, importing(db, file), { cwd: folder })
    await underWay(first, db)
    await stopBetweenWrites(first, db)
    const refused = await finish(t, importing(db, file), { cwd: folder })
    assert.equal(refused.code, 5)
    assert.equal(JSON.parse(refused.err).error.code, 'import_running')
    first.child.kill('SIGCONT')

    let written = 0
    while (!first.hasEnded()) {
      setClock(plus(machine.clock(), 1))
      await store.addPrice({ price: price('60000'), source: 'service' })
      written += 1
    }
    assert.equal(await first.ended, 0, first.err())
    assert.deepEqual(JSON.parse(first.out()), { rows: 50_000, added: 50_000, duplicates: 0 })
    assert.ok(written > 10, `${written} prices written meanwhile`)
    assert.deepEqual(rowsIn(db), { prices: 50_000 + written, staged: 0 })
  })
})
