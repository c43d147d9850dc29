// Features of the SQLite file: where it may be, how it is opened, kept private, migrated, and refused.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { usd } from '../../src/core/money.ts'
import { Problem } from '../../src/core/problem.ts'
import { readMigrations } from '../../src/resources.ts'
import { createDriver } from '../../src/store/sqlite/driver.ts'
import { configure, connect, openFile } from '../../src/store/sqlite/file/connection.ts'
import { refuseNetworkFile } from '../../src/store/sqlite/file/files.ts'
import { migrate } from '../../src/store/sqlite/file/migrate.ts'
import { ownMonitoring } from '../../src/store/sqlite/monitoring.ts'
import { openStore, readMigrationStates } from '../../src/store/sqlite/open.ts'
import { createRefusedWrites } from '../../src/store/writes.ts'
import { openFresh, temporaryFolder } from '../support/database.ts'
import { filled, mode, tamper } from './copies.ts'
import { firstSchemaOf } from './first-schema.ts'
import { AUDIT, each, problem, T0 } from './world.ts'

const clock = () => T0
const open = (file: string, create = true) => openStore(file, { clock, create })
const fileIn = (t: TestContext) => join(temporaryFolder(t), 'tranche.db')

test('a new database and everything beside it can be read by its owner only', async (t) => {
  const file = fileIn(t)
  const store = await open(file)
  t.after(() => store.close())
  await (await store.takePass())?.end()
  await store.addPartner({ partnerSlug: 'acme', name: 'a' }, AUDIT)
  const beside = readdirSync(join(file, '..')).sort()
  const names = ['', '-owner', '-shm', '-tick', '-wal'].map((suffix) => `tranche.db${suffix}`)
  assert.deepEqual(beside, names)
  for (const name of beside) assert.equal(mode(join(file, '..', name)), 0o600, name)
})

test('a database that is not there is made only when asked for', async (t) => {
  const file = fileIn(t)
  await assert.rejects(open(file, false), problem('database_not_found'))
  assert.equal(existsSync(file), false)
})

test('a connection waits for the disk, checks references and trusts no schema', async (t) => {
  const db = openFile(fileIn(t))
  t.after(() => db.close())
  configure(db)
  const pragmas: [name: string, value: unknown][] = [
    ['journal_mode', 'wal'],
    ['synchronous', 2n],
    ['foreign_keys', 1n],
    ['trusted_schema', 0n],
    ['busy_timeout', 0n],
  ]
  for (const [name, value] of pragmas) assert.equal(db.pragma(name, { simple: true }), value, name)
})

test('migrations are applied once, in order, with their hash', async (t) => {
  const file = fileIn(t)
  await (await open(file)).close()
  const states = await readMigrationStates(file)
  const hash = (text: string) => createHash('sha256').update(text).digest('hex')
  const read = readMigrations('sqlite')
  const known = read.map(({ name, text }) => ({ name, sha256: hash(text), appliedAt: T0 }))
  assert.deepEqual(states, known)
  assert.deepEqual(each(known, 'name'), known.map(({ name }) => name).sort())
  ;(await openStore(file, { clock: () => (T0 + 1) as typeof T0, create: false })).close()
  assert.deepEqual(await readMigrationStates(file), known)
  assert.ok(!readdirSync(join(file, '..')).some((name) => name.includes('before')))
})

test('an upgrade takes the volume of tiers that none has ever led to, and leaves the others theirs', async (t) => {
  const upgraded = async (rows: string[]): Promise<unknown[]> => {
    const [present, old] = [await filled(t), fileIn(t)]
    firstSchemaOf(present, old)
    for (const row of rows) tamper(old, `insert into tiers values (${row}, 7, 0, 500000000000)`)
    const store = await open(old)
    t.after(() => store.close())
    assert.deepEqual(await store.findFaults(), [])
    return (await store.listTiers()).map(({ name, fromMonth, minVolume }) => [name, fromMonth, minVolume])
  }
  const shipped = [
    ['starter', '1970-01', 0n],
    ['growth', '1970-01', usd('1000000')],
    ['scale', '1970-01', usd('10000000')],
  ]
  assert.deepEqual(await upgraded(["'vip', '2026-01', 0", "'gold', '2026-02', 500"]), [
    ...shipped,
    ['vip', '2026-01', null],
    ['gold', '2026-02', 500n],
  ])
  // Here a month of little volume reached it, and still does.
  assert.deepEqual(await upgraded(["'vip', '2026-01', 0", "'starter', '2026-02', 500"]), [
    ...shipped,
    ['vip', '2026-01', 0n],
    ['starter', '2026-02', 500n],
  ])
})

test('an upgrade puts tiers in the order in which they were set, and makes no changed one good', async (t) => {
  const [present, old] = [await filled(t), fileIn(t)]
  firstSchemaOf(present, old)
  for (const [name, month] of Object.entries({ aa: '2026-02', bb: '2026-02', cc: '2026-01' }))
    tamper(old, `insert into tiers values ('${name}', '${month}', 500, 7, 0, 0)`)
  const entry = 'insert into audit (at, os_user, action, subject, detail)'
  for (const name of ['growth', 'bb', 'cc', 'aa', 'bb'])
    tamper(old, `${entry} values (1, 'root', 'tier.set', '${name}', '{}')`)
  const store = await open(old)
  t.after(() => store.close())
  assert.deepEqual(await store.findFaults(), [])
  const places = (await store.listTiers()).map(({ name, place }) => `${name} ${place}`)
  assert.deepEqual(places, ['starter 1', 'growth 2', 'scale 3', 'cc 4', 'bb 5', 'aa 6'])
})

test('a file of somebody else is refused and left as it was', async (t) => {
  const file = fileIn(t)
  tamper(file, 'create table theirs (x)')
  const before = readFileSync(file)
  await assert.rejects(open(file), problem('usage'))
  assert.deepEqual(readFileSync(file), before)
  const text = fileIn(t)
  writeFileSync(text, 'this is a letter, and no database at all'.repeat(100))
  await assert.rejects(open(text), /not a database/)
  assert.match(readFileSync(text, 'utf8'), /^this is a letter/)
})

test('a migration that was applied with another content stops the program', async (t) => {
  const file = await filled(t)
  tamper(file, "update migrations set sha256 = 'changed'")
  await assert.rejects(open(file), /another content/)
})

test('two programs that open a new file at once agree on its schema', async (t) => {
  const file = fileIn(t)
  for (const store of await Promise.all(Array.from({ length: 4 }, () => open(file)))) {
    t.after(() => store.close())
    assert.deepEqual(await store.findFaults(), [])
  }
  assert.ok((await readMigrationStates(file)).every(({ appliedAt }) => appliedAt !== null))
})

test('a full disk fails the write, leaves nothing of it, and the next one works', async (t) => {
  const db = openFile(fileIn(t))
  t.after(() => db.close())
  configure(db)
  await migrate(db, db.name, clock)
  db.exec('create table kept (x text) strict')
  const { write } = connect(db, clock)
  const add = (text: string) => write(() => db.prepare('insert into kept values (?)').run(text))
  const count = () => Number(db.prepare('select count(*) from kept').pluck().get())
  await add('one')

  const pages = Number(db.pragma('page_count', { simple: true }))
  db.pragma(`max_page_count = ${pages}`)
  const large = 'x'.repeat(200_000)
  const outcomes = await Promise.allSettled([add('two'), add(large), add('three')])
  const [small, big] = outcomes
  assert.equal(big?.status, 'rejected')
  assert.match(String((big as PromiseRejectedResult).reason), /full/)
  // Every answered write is there, and no refused one is.
  assert.equal(count(), 1 + outcomes.filter(({ status }) => status === 'fulfilled').length)
  // The write that SQLite rolled back with it is rejected; later ones had a commit of their own.
  assert.equal(small?.status, 'rejected')
  assert.equal(db.inTransaction, false)

  db.pragma('max_page_count = 1000000')
  await add(large)
  await add('four')
  assert.equal(db.prepare('select max(length(x)) from kept').pluck().get(), 200_000n)
  assert.deepEqual(db.prepare('pragma integrity_check').pluck().all(), ['ok'])
})

// A database belongs on a disk of its own machine.

// The type as statfs(2) reports it; some builds of Node give types above 2^31 as negative numbers.
for (const [name, type] of [
  ['NFS', 0x6969],
  ['CIFS', 0xff534d42],
  ['CIFS', 0xff534d42 | 0],
  ['SMB2', 0xfe534d42],
  ['9p', 0x01021997],
  ['Ceph', 0x00c36400],
] as const) {
  test(`a database on ${name} (${type}) is refused by that name`, (t) => {
    const file = join(temporaryFolder(t), 'tranche.db')
    assert.throws(() => refuseNetworkFile(file, () => type), problem('usage'))
    assert.throws(() => refuseNetworkFile(file, () => type), new RegExp(`network file system \\(${name}\\)`))
  })
}

test('local file systems are taken', (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  for (const type of [0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0])
    refuseNetworkFile(file, () => type)
  refuseNetworkFile(file)
  refuseNetworkFile(join(file, 'not', 'there'))
})

test('behind a link it is the place of the file itself that counts', (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'mount'))
  writeFileSync(join(folder, 'mount', 'real.db'), '')
  symlinkSync(join(folder, 'mount', 'real.db'), join(folder, 'tranche.db'))
  const typeOf = (asked: string) => (asked.endsWith('mount') ? 0x6969 : 0xef53)
  assert.throws(() => refuseNetworkFile(join(folder, 'tranche.db'), typeOf), problem('usage'))
})

// Probes of the database after larger writes that the disk had no room for.

test('a probe fails after a write that was too large for the disk, until one succeeds', async (t) => {
  const file = join(temporaryFolder(t), 'tranche.db')
  await (await openFresh(file, () => T0)).close()
  const db = openFile(file)
  t.after(() => db.close())
  const connection = connect(db, () => T0)
  const { probeWrite } = ownMonitoring(connection, createDriver(connection))
  const add = (label: string) =>
    connection.write(() => db.prepare('insert into clock_disputes values (1, 0, 0, ?)').run(label))
  await probeWrite()
  const pages = Number(db.pragma('page_count', { simple: true }))
  db.pragma(`max_page_count = ${pages}`)
  const isFull = (error: unknown) => error instanceof Problem && /full/.test(error.message)
  await assert.rejects(add('x'.repeat(200_000)), isFull)
  await assert.rejects(probeWrite(), isFull)
  await assert.rejects(probeWrite(), isFull)
  await add('x')
  await probeWrite()
})

test('a refusal counts for a minute, and as long as there is next to no room', async () => {
  const world = { at: 0, isStillFull: false }
  const full = new Error('full')
  const refused = createRefusedWrites({
    isFull: (error) => error === full,
    isStillFull: () => world.isStillFull,
    elapsed: () => world.at,
  })
  const fail = (error: Error) => assert.rejects(refused.follow(Promise.reject(error)))
  await fail(new Error('another one'))
  refused.throwRecent()
  await fail(full)
  assert.throws(refused.throwRecent, full)
  world.at = 59_999
  assert.throws(refused.throwRecent, full)
  world.at = 60_000
  refused.throwRecent()
  await fail(full)
  world.isStillFull = true
  world.at = 10 * 60_000
  assert.equal(await refused.follow(Promise.resolve(1)), 1)
  assert.throws(refused.throwRecent, full)
  world.isStillFull = false
  await refused.follow(Promise.resolve(1))
  refused.throwRecent()
})
