// Exports as processes of their own: beside a writer, into a closed pipe, on a full disk, interrupted, in little
// memory.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { CACHE, finish, PROGRAM, SOURCE, start } from '../support/process.ts'
import { type Office, openMarch, utc } from './books.ts'

const MONTH = '2025-03'
const TRADES = ['billing', 'export', '--month', MONTH, '--report', 'trades']

const strays = ({ folder }: Office): string[] =>
  readdirSync(folder).filter((name) => !/^tranche\.db(-wal|-shm|-tick|-owner)?$/.test(name))

/** A shell, for what only a shell can set up; the program is "$@". */
function bash(office: Office, script: string, argv: readonly string[]) {
  return new Promise<{ code: number; out: string; err: string }>((resolve) => {
    const args = ['-c', script, 'bash', ...PROGRAM, '--db', office.file, ...argv]
    execFile(
      'bash',
      args,
      { cwd: office.folder, env: { ...process.env, ...CACHE }, maxBuffer: 1 << 28 },
      (error, out, err) => resolve({ code: error ? Number(error.code) : 0, out, err }),
    )
  })
}

test('a reader that has seen enough ends the export quietly', async (t) => {
  const office = await openMarch(t, 3_000)
  const seen = await bash(office, '"$@" | head -1; echo "$PIPESTATUS"', TRADES)
  assert.match(seen.out, /^recorded_at,[a-z_,]+\r\n0\n$/)
  assert.equal(seen.err, '')
  assert.deepEqual(strays(office), [])
})

test('a disk that is full leaves the old file and nothing beside it', async (t) => {
  const office = await openMarch(t, 3_000)
  const file = join(office.folder, 'march.csv')
  writeFileSync(file, 'the old one')
  await office.tranche(`billing show --month ${MONTH}`)
  // A file may grow to 128 KiB: more than SQLite's index of its log, less than this export.
  const full = await bash(office, 'trap "" XFSZ; ulimit -f 128; exec "$@"', [
    ...TRADES,
    '--force',
    '--output',
    file,
  ])
  assert.equal(full.code, 1)
  assert.match(full.err, /^error: .*march\.csv could not be written \(EFBIG: [^\n]*\n$/)
  assert.equal(readFileSync(file, 'utf8'), 'the old one')
  assert.deepEqual(strays(office), ['march.csv'])
})

test('an export that is interrupted takes its unfinished file along; what SIGKILL leaves, the next one removes', async (t) => {
  const office = await openMarch(t, 25_000)
  const output = ['--output', join(office.folder, 'march.csv')]
  const killed = async (signal: NodeJS.Signals): Promise<number | undefined> => {
    const exporting = start(t, ['--db', office.file, ...TRADES, ...output], { cwd: office.folder })
    const { child, ended, hasEnded } = exporting
    while (strays(office).length === 0 && !hasEnded()) await setTimeout(2)
    child.kill(signal)
    assert.equal(await ended, signal)
    return child.pid
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    await killed(signal)
    assert.deepEqual(strays(office), [], signal)
  }
  const pid = await killed('SIGKILL')
  const [left = ''] = strays(office)
  assert.match(left, new RegExp(`^march\\.csv\\.partial-${pid}-[0-9a-f-]{36}$`))
  // One of a process that is alive, and one that only looks like it: neither is ours to remove.
  const others = [`march.csv.partial-${process.pid}${left.slice(-37)}`, 'march.csv.partial-notes']
  for (const name of others) writeFileSync(join(office.folder, name), '')
  await office.read([...TRADES, ...output].join(' '))
  assert.deepEqual(strays(office).sort(), ['march.csv', ...others].sort())
})

test('an export that nobody reads on keeps no writer waiting and no log from being emptied', async (t) => {
  const office = await openMarch(t, 10_000)
  const [program, ...first] = PROGRAM
  const child = spawn(program, [...first, '--db', office.file, ...TRADES], {
    env: CACHE,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  // It has begun, and is now stopped by a pipe that is full.
  await once(child.stdout, 'readable')

  const writer = openFile(office.file)
  t.after(() => writer.close())
  writer.pragma('busy_timeout = 0')
  for (let i = 0; i < 20; i++) {
    writer.exec(`update partners set name = 'acme ${i}'`)
    await emptied(writer)
  }
  // Later months and a replaced trade of none of them: the rest of the export is still that month.
  office.enter('acme', 'live', [{ user: 'new', at: utc(2025, 3), usd: '1.00' }])

  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
  assert.equal(child.exitCode ?? (await once(child, 'close'))[0], 0)
  assert.equal(text, await office.read(TRADES.join(' ')))
  assert.equal(text.split('\r\n').length, 10_002)
})

/** Empties the log, as often as it takes while the export is still between two of its reads. */
async function emptied(writer: ReturnType<typeof openFile>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const [{ busy, log } = { busy: 1n, log: 1n }] = writer.pragma('wal_checkpoint(truncate)') as {
      busy: bigint
      log: bigint
    }[]
    if (busy === 0n && log === 0n) return
    await setTimeout(5)
  }
  assert.fail('the log stayed in use')
}

// The memory of an export does not grow with its rows.

const TRADES_OF_MARCH = ['billing', 'export', '--month', '2025-03', '--report', 'trades']

test('twenty times the trades take no more memory', async (t) => {
  const peak = async (office: Office): Promise<number> => {
    // Not what getrusage says: that counts the parent's memory from before exec as the child's.
    const tell = `import { readFileSync } from 'node:fs'
      process.on('exit', () => process.stderr.write(readFileSync('/proc/self/status')))`
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(tell)}` }
    const argv = ['--db', office.file, ...TRADES_OF_MARCH, '--output', join(office.folder, 'march.csv')]
    const { code, err } = await finish(t, argv, { cwd: office.folder, env, program: SOURCE })
    assert.equal(code, 0, err)
    return Number(/VmHWM:\s+(\d+) kB/.exec(err)?.[1])
  }
  const few = await peak(await openMarch(t, 3_000))
  const many = await peak(await openMarch(t, 60_000))
  assert.ok(many < few * 1.2, `${few} KiB for 3,000 trades, ${many} KiB for 60,000`)
})
