// Kills of what would make the scene's database ever larger or newer: each works on a database of its own.

import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import { pricesCsv } from '../../price/histories.ts'
import { FIRST, firstSchemaOf } from '../../store/first-schema.ts'
import type { Attempt } from './rounds.ts'
import type { Scene } from './scene.ts'

const ROWS = 25_000

/** A fresh file under that name, without what lay beside the one before. */
function fresh(scene: Scene, name: string): string {
  for (const old of readdirSync(scene.folder))
    if (old.startsWith(`${name}.db`)) rmSync(join(scene.folder, old))
  return join(scene.folder, `${name}.db`)
}

function ask<T>(file: string, sql: string): T {
  const db = new SQLite(file)
  try {
    return db.prepare<[], T>(sql).pluck().get() as T
  } finally {
    db.close()
  }
}

export async function beginImport(scene: Scene): Promise<Attempt> {
  const file = fresh(scene, 'import')
  const csv = join(scene.folder, 'prices.csv')
  if (!existsSync(csv)) writeFileSync(csv, pricesCsv(ROWS))
  await scene.run(['migrate'], file)
  const count = () => ask<number>(file, 'select count(*) from prices')
  return {
    started: scene.start(['price', 'import', csv], file),
    file,
    async after(code) {
      await scene.run(['check'], file)
      const added = count()
      assert.ok(added === ROWS || (added === 0 && code !== 0), `all rows or none, not ${added}`)
      const again = JSON.parse(await scene.run(['price', 'import', csv, '--json'], file))
      assert.deepEqual([again.added, count()], [ROWS - added, ROWS])
      assert.equal(ask(file, 'select count(*) from price_imports'), 0)
    },
  }
}

/** Rows enough that the copy and the migration take their time. */
const FATTEN = `with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500)
  insert or ignore into prices select i, 100000000, hex(randomblob(2500)) from n`

export async function beginMigration(scene: Scene): Promise<Attempt> {
  const file = fresh(scene, 'old')
  const template = join(scene.folder, 'template.db')
  if (!existsSync(template)) {
    const present = join(scene.folder, 'present.db')
    await scene.run(['backup', present])
    firstSchemaOf(present, template)
    const db = new SQLite(template)
    db.exec(FATTEN)
    db.close()
  }
  copyFileSync(template, file)
  const executions = ask(file, 'select count(*) from executions')
  return {
    started: scene.start(['migrate'], file),
    file,
    async after(code) {
      const states = JSON.parse(await scene.run(['migrate', '--status', '--json'], file)) as State[]
      const done = states.filter(({ applied_at }) => applied_at !== null).map(({ name }) => name)
      assert.ok(done.length === states.length || (done.join() === FIRST && code !== 0), done.join())
      const copy = `${file}.before-migration-after-${FIRST.replace('.sql', '')}`
      assert.ok(existsSync(copy) || done.length === 1, 'what was migrated was copied')
      // Under its name the copy is whole.
      if (existsSync(copy)) assert.equal(ask(copy, 'select count(*) from executions'), executions)
      await scene.run(['check'], file)
      assert.equal(ask(file, 'select count(*) from executions'), executions)
      assert.deepEqual(
        readdirSync(scene.folder).filter((name) => name.startsWith('old.db') && name.includes('.partial-')),
        [],
      )
    },
  }
}

type State = { name: string; applied_at: string | null }
