// Kills of what writes a file: under its name there is the old file or the whole new one, never a part.

import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import SQLite from 'better-sqlite3'
import { monthOf } from '../../../src/core/time.ts'
import { machine } from '../../../src/machine.ts'
import type { Attempt } from './rounds.ts'
import type { Scene } from './scene.ts'

const partials = (file: string): string[] =>
  readdirSync(dirname(file)).filter((name) => name.startsWith(`${basename(file)}.partial-`))

const bytesOf = (file: string): Buffer | null => (existsSync(file) ? readFileSync(file) : null)

export async function beginExport({ start, run, random, folder, file }: Scene): Promise<Attempt> {
  const output = join(folder, 'export.csv')
  const report = random() < 0.7 ? 'trades' : 'users'
  const month = monthOf(machine.clock())
  const command = ['billing', 'export', '--month', month, '--env', 'test', '--report', report]
  const before = bytesOf(output)
  const started = start([...command, '--output', output, '--force', '--json'])
  return {
    started,
    file,
    async after(code) {
      // Nobody writes now, so the same export gives the same bytes.
      const whole = Buffer.from(await run(command))
      const left = bytesOf(output)
      const isOld = before === null ? left === null : left?.equals(before)
      assert.ok(left?.equals(whole) || (isOld && code !== 0), 'the old export or the whole new one')
      await run([...command, '--output', output, '--force', '--json'])
      assert.deepEqual(bytesOf(output), whole)
      assert.deepEqual(partials(output), [], 'what was left aside is gone after the next export')
    },
  }
}

export async function beginBackup({ start, run, folder, file }: Scene): Promise<Attempt> {
  const copy = join(folder, 'backup.db')
  const before = bytesOf(copy)
  const started = start(['backup', copy, '--force'])
  return {
    started,
    file,
    async after(code) {
      const left = bytesOf(copy)
      const isOld = before === null ? left === null : left?.equals(before)
      assert.ok(!isOld || code !== 0, 'a backup that exits 0 is there')
      if (left && !isOld) await assertCopy(run, copy, file)
      await run(['backup', copy, '--force'])
      assert.deepEqual(partials(copy), [], 'what was left aside is gone after the next backup')
    },
  }
}

/** Asserts that a copy is sound and has all the rows of the database, which nobody writes to. */
async function assertCopy(run: Scene['run'], copy: string, file: string): Promise<void> {
  // To be opened is to be changed: the copy itself stays as it was found.
  const opened = `${copy}.opened`
  copyFileSync(copy, opened)
  await run(['check'], opened)
  assert.deepEqual(rowsOf(opened), rowsOf(file))
  rmSync(opened)
}

const COUNTS = ['users', 'plans', 'windows', 'executions', 'trades', 'api_keys', 'audit']

function rowsOf(file: string): unknown {
  const db = new SQLite(file, { readonly: true })
  try {
    return db.prepare(`select ${COUNTS.map((table) => `(select count(*) from ${table}) as ${table}`)}`).get()
  } finally {
    db.close()
  }
}

/** What is restored lacks a key that the present database has: by it the two are told apart. */
export async function beginRestore({ start, run, keys, issueKey, folder, file }: Scene): Promise<Attempt> {
  const copy = join(folder, 'restore.db')
  await run(['backup', copy, '--force'])
  const key = await issueKey('test')
  const started = start(['restore', copy])
  return {
    started,
    file,
    async after(code) {
      assert.ok(existsSync(file), 'at no moment is there no database')
      const audit = JSON.parse(await run(['audit', '--json'])) as { action: string; subject: string }[]
      const isNew = audit.at(-1)?.action === 'database.restore'
      assert.ok(isNew || code !== 0, 'a restore that exits 0 has happened')
      if (!isNew) keys.add(key)
      await run(['restore', copy])
      await run(['restore', '--resume'])
      keys.delete(key)
      assert.deepEqual(partials(file), [], 'what was left aside is gone after the next restore')
      for (const name of readdirSync(folder)) if (name.includes('.replaced-')) rmSync(join(folder, name))
    },
  }
}
