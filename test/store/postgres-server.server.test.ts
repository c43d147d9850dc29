// The server of the tests: it ends with the process that asked for it, and runs wherever temporary files are.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { temporaryFolder } from '../support/database.ts'
import { until } from '../support/within.ts'

const MODULE = pathToFileURL(join(import.meta.dirname, '../support/postgres-server.ts')).href
const START = `import(process.argv[1]).then(async ({ startServer }) => {
  const server = await startServer()
  console.log(server.folder)
  setInterval(() => {}, 60_000)
})`

test('it is gone, with its folder, when its process is killed, however long the name of the temporary folder is', async (t) => {
  const long = join(temporaryFolder(t), 'x'.repeat(120))
  mkdirSync(long)
  chmodSync(long, 0o700)
  const child = spawn(process.execPath, ['--import', 'tsx', '-e', START, MODULE], {
    env: { ...process.env, TMPDIR: long },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  const [printed] = await once(child.stdout, 'data')
  const folder = String(printed).trim()
  assert.ok(existsSync(join(folder, 'data/postmaster.pid')))
  child.kill('SIGKILL')
  await until(20_000, `the end of ${folder}`, () => !existsSync(folder))
})
