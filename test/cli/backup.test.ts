// Backups into a folder: dated names, older ones removed once the new one is complete, and a monitor that is notified.

import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { DAY_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { layFresh, temporaryFolder } from '../support/database.ts'
import { listen, runHere, T0 } from '../support/service.ts'

type Status = { jobs: unknown[]; findings: { kind: string; mend: string }[] }

async function setUp(t: Parameters<typeof temporaryFolder>[0]) {
  const folder = temporaryFolder(t)
  const file = join(folder, 'tranche.db')
  await layFresh(file)
  const backups = join(folder, 'backups')
  mkdirSync(backups)
  const { machine, setClock } = machineAt(T0)
  const backup = (...argv: string[]) => runHere(['--db', file, 'backup', ...argv], { machine })
  const status = async () =>
    JSON.parse((await runHere(['--db', file, '--json', 'status'], { machine })).out) as Status
  const names = () => readdirSync(backups).sort()
  return { folder, file, backups, machine, setClock, backup, status, names }
}

/** Takes every name that a backup at the beginning of a day tries. */
function takeNames(backups: string, day: string): void {
  const taken = readdirSync(backups)
  for (let second = 0; second < 10; second++) {
    const name = `tranche-${day}T00000${second}Z.db`
    if (!taken.includes(name)) mkdirSync(join(backups, name))
  }
}

test('in a folder a backup is named by its time, and is a whole database', async (t) => {
  const { folder, file, backups, backup, names, machine } = await setUp(t)
  const done = await backup(backups, '--json')
  assert.equal(done.code, 0, done.err)
  const [name = ''] = names()
  assert.equal(name, 'tranche-20260105T000000Z.db')
  assert.equal(JSON.parse(done.out).file, join(backups, name))
  assert.equal((await runHere(['--db', join(backups, name), 'check'], { machine })).code, 0)
  // Within the same second it takes the next free name, whatever occupies the others, and replaces none.
  symlinkSync(join(folder, 'nowhere'), join(backups, 'tranche-20260105T000001Z.db'))
  assert.equal((await backup(backups, '--keep', '9')).code, 0)
  assert.equal((await backup(backups, '--force')).code, 0)
  const inOrder = [0, 1, 2, 3].map((second) => `tranche-20260105T00000${second}Z.db`)
  assert.deepEqual(names(), inOrder)
  // Two concurrent backups do so as well.
  const both = await Promise.all([backup(backups), backup(backups)])
  assert.deepEqual([both.map(({ code }) => code), names().length], [[0, 0], 6])
  takeNames(backups, '20260105')
  const none = await backup(backups)
  assert.deepEqual([none.code, none.out], [5, ''])
  assert.match(
    none.err,
    /^error: In .*backups the names of this second and of the next 9 are taken: try again\.\n$/,
  )
  assert.equal((await backup(`${backups}/nowhere/`)).code, 4)
  assert.equal((await backup(file)).code !== 0, true)
})

test('--keep removes the oldest of its own, and nothing else, once the new one is there', async (t) => {
  const { folder, backups, backup, names, setClock } = await setUp(t)
  const strangers = ['tranche-20200101T000000Z.db.gz', 'tranche-before-upgrade.db', 'notes.txt']
  for (const name of strangers) writeFileSync(join(backups, name), '')
  mkdirSync(join(backups, 'tranche-20200102T000000Z.db'))
  symlinkSync(join(folder, 'tranche.db'), join(backups, 'tranche-20200103T000000Z.db'))
  const kept = ['tranche-20200102T000000Z.db', 'tranche-20200103T000000Z.db', ...strangers]
  for (let day = 0; day < 5; day++) {
    setClock(plus(T0, day * DAY_MS))
    const done = await backup(backups, '--keep', '3', '--json')
    assert.equal(done.code, 0, done.err)
    assert.equal(JSON.parse(done.out).removed.length, day < 3 ? 0 : 1)
  }
  const own = ['tranche-20260107T000000Z.db', 'tranche-20260108T000000Z.db', 'tranche-20260109T000000Z.db']
  assert.deepEqual(names(), [...kept, ...own].sort())
  // A clock that was set back does not make the new backup the oldest.
  setClock(plus(T0, -DAY_MS))
  assert.equal((await backup(backups, '--keep', '1')).code, 0)
  assert.deepEqual(names(), [...kept, 'tranche-20260104T000000Z.db'].sort())
  // Nor does it for the next backup within the same second.
  assert.equal((await backup(backups, '--keep', '1')).code, 0)
  assert.deepEqual(names(), [...kept, 'tranche-20260104T000001Z.db'].sort())
  // A failed backup removes nothing.
  setClock(T0)
  takeNames(backups, '20260105')
  const before = names()
  assert.equal((await backup(backups, '--keep', '1')).code, 5)
  assert.deepEqual(names(), before)
  const wrong = [
    [join(folder, 'one.db'), '3'],
    [backups, '0'],
    [backups, '3', '--force'],
  ] as const
  for (const [to, ...kept] of wrong)
    assert.equal((await backup(to, '--keep', ...kept)).code, 2, [to, ...kept].join(' '))
})

test('status looks for the newest backup of a job, in its folder', async (t) => {
  const { folder, backups, backup, status, setClock } = await setUp(t)
  assert.equal((await backup(backups)).code, 0)
  assert.deepEqual((await status()).jobs, [], 'one by hand is not of a job')
  setClock(plus(T0, 3 * DAY_MS))
  assert.equal((await backup(backups, '--keep', '2')).code, 0)
  // Its file is missing or empty; an unreadable folder proves nothing.
  const last = join(backups, 'tranche-20260108T000000Z.db')
  const findings = async () => (await status()).findings.map(({ kind }) => kind)
  renameSync(last, `${last}.away`)
  assert.deepEqual(await findings(), ['backup_missing'])
  writeFileSync(last, '')
  assert.deepEqual(await findings(), ['backup_missing'])
  renameSync(`${last}.away`, last)
  assert.deepEqual(await findings(), [])
  renameSync(backups, `${backups}.away`)
  assert.deepEqual(await findings(), [])
  renameSync(`${backups}.away`, backups)
  // A backup elsewhere is no substitute.
  rmSync(last)
  assert.equal((await backup(join(folder, 'tranche-20260108T000000Z.db'))).code, 0)
  assert.deepEqual(await findings(), ['backup_missing'])
  assert.equal((await backup(backups)).code, 0)
  assert.deepEqual(await findings(), [])
  setClock(plus(T0, 6 * DAY_MS))
  assert.deepEqual(await findings(), ['backup_missing'])
})

test('a job whose folder is gone is remembered, with a command that mends it once the folder is there', async (t) => {
  const { folder, backup, status } = await setUp(t)
  const missing = async () => (await status()).findings.find(({ kind }) => kind === 'backup_missing')
  // A name that contains the separator of folder and reason.
  const gone = join(folder, 'of: "acme"')
  for (const place of [gone, `${gone}/`]) {
    const failed = await backup(place, '--keep', '3')
    assert.deepEqual([failed.code, failed.err], [4, `error: There is no folder ${place}.\n`])
    const { mend = '' } = (await missing()) ?? {}
    assert.match(mend, / backup '[^']*of: "acme"\/'$/)
    // It makes no file with the name of the folder.
    const mended = () => backup(mend.slice(mend.indexOf(" '") + 2, -1))
    assert.equal((await mended()).code, 4)
    mkdirSync(gone)
    assert.equal((await mended()).code, 0)
    assert.equal(await missing(), undefined)
    rmSync(gone, { recursive: true })
  }
})

test('a monitor is told of a backup that was made, and why one was not', async (t) => {
  const { folder, backups, backup } = await setUp(t)
  const calls: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    calls.push(`${request.method} ${request.url} ${body}`)
    response.end('OK')
  })
  const { port } = await listen(t, server)
  const ping = ['--ping', `http://127.0.0.1:${port}/b`]
  assert.equal((await backup(backups, ...ping)).code, 0)
  assert.equal((await backup(join(folder, 'no', 'where.db'), ...ping)).code !== 0, true)
  assert.equal(calls[0], 'GET /b ')
  assert.match(calls[1] ?? '', /^POST \/b\/fail There is no folder/)
  server.close()
  const silent = await backup(join(folder, 'again.db'), '--ping', 'http://127.0.0.1:1/b')
  assert.equal(silent.code, 0)
  assert.match(silent.err, /^warning: ping 127\.0\.0\.1:1: /)
})
