// Exports as processes of their own and as other programs read them: Python's csv, hledger, pipes, a full disk.

import assert from 'node:assert/strict'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { each } from '../store/world.ts'
import { CACHE, finish, PROGRAM, PYTHON, SOURCE, start } from '../support/process.ts'
import { hasTool } from '../support/tools.ts'
import { defused, NASTY, type Office, openMarch, openNasty, openOffice, REASONS, utc } from './books.ts'

const MONTH = '2025-03'
const TRADES = ['billing', 'export', '--month', MONTH, '--report', 'trades']

const strays = ({ folder }: Office): string[] =>
  readdirSync(folder).filter((name) => !/^tranche\.db(-wal|-shm|-tick|-owner)?$/.test(name))

/** Runs a shell script; the program is "$@". */
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

test('a disk that is full leaves the old file and nothing beside it', async (t) => {
  const office = await openMarch(t, 3_000)
  const file = join(office.folder, 'march.csv')
  writeFileSync(file, 'the old one')
  await office.tranche(`billing show --month ${MONTH}`)
  // A file may grow to 128 KiB: more than SQLite's index of its log, less than this export.
  const argv = [...TRADES, '--force', '--output', file]
  const full = await bash(office, 'trap "" XFSZ; ulimit -f 128; exec "$@"', argv)
  assert.equal(full.code, 1)
  assert.match(
    full.err,
    /^error: .*march\.csv could not be written: a file may not be that large: [^\n]*\(EFBIG\); [^\n]*\n$/,
  )
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
  // A partial file of a live process, and a file that only looks like one: neither may be removed.
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
  // The export has begun, and now blocks on a full pipe.
  await once(child.stdout, 'readable')

  const writer = openFile(office.file)
  t.after(() => writer.close())
  writer.pragma('busy_timeout = 0')
  for (let i = 0; i < 20; i++) {
    writer.exec(`update partners set name = 'acme ${i}'`)
    await emptied(writer)
  }
  // Later months, and a replaced trade of another month: the rest of the export is still that month.
  office.enter('acme', 'live', [{ user: 'new', at: utc(2025, 3), usd: '1.00' }])

  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
  assert.equal(child.exitCode ?? (await once(child, 'close'))[0], 0)
  assert.equal(text, await office.read(TRADES.join(' ')))
  assert.equal(text.split('\r\n').length, 10_002)
})

/** Truncates the log; tries until it succeeds while the export is between two of its reads. */
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

test('twenty times the trades take no more memory', async (t) => {
  const peak = async (office: Office): Promise<number> => {
    // Not from getrusage: that counts the parent's memory from before exec as the child's.
    const tell = `import { readFileSync } from 'node:fs'
      process.on('exit', () => process.stderr.write(readFileSync('/proc/self/status')))`
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(tell)}` }
    const argv = ['--db', office.file, ...TRADES, '--output', join(office.folder, 'march.csv')]
    const { code, err } = await finish(t, argv, { cwd: office.folder, env, program: SOURCE })
    assert.equal(code, 0, err)
    return Number(/VmHWM:\s+(\d+) kB/.exec(err)?.[1])
  }
  const few = await peak(await openMarch(t, 3_000))
  const many = await peak(await openMarch(t, 60_000))
  assert.ok(many < few * 1.2, `${few} KiB for 3,000 trades, ${many} KiB for 60,000`)
})

// Exports as Python's csv module reads them, in strict mode: an independent reader.

function readWithPython(text: string): Record<string, string>[] {
  const script = `import csv, io, json, sys
text = sys.stdin.buffer.read().decode('utf-8')
print(json.dumps(list(csv.DictReader(io.StringIO(text, newline=''), strict=True))))`
  return JSON.parse(execFileSync(PYTHON, ['-c', script], { input: text, encoding: 'utf8' }))
}

test("Python's csv reads back every cell, formulas defused", async (t) => {
  const office = await openNasty(t)
  const csv = await office.read('billing export --month 2026-01 --report trades')
  assert.equal(await office.read('billing export --month 2026-01 --report trades --bom'), `\uFEFF${csv}`)
  const json = await office.json('billing export --month 2026-01 --report trades --format json')
  const rows = readWithPython(csv)
  assert.equal(rows.length, NASTY.length + REASONS.length)
  for (const [i, row] of rows.entries()) {
    const wanted = Object.entries(json[i]).map(([name, value]) => [name, defused(String(value ?? ''))])
    assert.deepEqual(row, Object.fromEntries(wanted))
  }
  const orders = NASTY.map((name) => defused(`${name}.order`))
  assert.deepEqual(each(rows.slice(0, NASTY.length), 'partner_order_id'), orders)
  assert.deepEqual(each(rows.slice(NASTY.length), 'failure_reason'), REASONS.map(defused))
  const users = readWithPython(await office.read('billing export --month 2026-01 --report users'))
  assert.deepEqual(users.map((row) => row.partner_user_id).sort(), NASTY.map(defused).sort())
})

// A month as a journal: hledger accepts it, balanced, and its accounts agree with the statements.

const PARTY = { name: 'Acme', address: ['London'] }
const ACCOUNTS = {
  receivable: 'assets:receivable:{partner}',
  revenue: 'revenues:saving plans',
  tax: 'liabilities:vat',
}
const SETTINGS = {
  issuer: PARTY,
  partners: {
    acme: [
      { ...PARTY, tax: { rate: '19' } },
      { ...PARTY, from: '2026-10', tax: { rate: '7.75' } },
    ],
    bolt: { ...PARTY, tax: 'reverse-charge' },
  },
  accounts: ACCOUNTS,
}

/** Three partners, one of whom owes nothing, over two months. */
async function autumn(t: Parameters<typeof openOffice>[0]): Promise<Office> {
  const office = await openOffice(t, utc(2026, 7), ['acme', 'bolt', 'idle'])
  await office.read('tier set starter --per-active-user-usd 0.40 --monthly-minimum-usd 25.00 --from 2026-10')
  await office.read('tier set free --rate-bps 0')
  await office.read('partner set-tier idle free')
  office.enter('acme', 'live', [
    { user: 'u', at: utc(2026, 8, 5), usd: '1234567.89', btc: '20' },
    { user: 'u', at: utc(2026, 9, 5), usd: '100.00' },
  ])
  office.enter('bolt', 'live', [{ user: 'v', at: utc(2026, 9, 6), usd: '9999.99', btc: '0.2' }])
  office.setClock(utc(2026, 10, 2))
  return office
}

const EXPORT = 'billing export --format hledger'

const JOURNAL = `decimal-mark .
commodity 1000.00 USD

2026-09-30 * acme | fees of 2026-09
    assets:receivable:acme  5141.98 USD
    revenues:saving plans   -4320.99 USD  ; Volume fee
    liabilities:vat          -820.99 USD

2026-10-31 * acme | fees of 2026-10
    assets:receivable:acme  26.94 USD
    revenues:saving plans   -0.50 USD  ; Volume fee
    revenues:saving plans   -0.40 USD  ; User fee
    revenues:saving plans  -24.10 USD  ; Up to the monthly minimum
    liabilities:vat         -1.94 USD

2026-10-31 * bolt | fees of 2026-10
    assets:receivable:bolt   50.40 USD
    revenues:saving plans   -50.00 USD  ; Volume fee
    revenues:saving plans    -0.40 USD  ; User fee
`

/** A journal whose amounts are not aligned. */
const unaligned = (journal: string) => journal.replaceAll(/ +(?=-?[\d.]+ USD)/g, '  ')

/** Has hledger check a journal, in a file whose name is answered; null where it is not installed. */
function checked(t: TestContext, office: Office, journal: string): string | null {
  if (!hasTool(t, 'hledger')) return null
  const file = join(office.folder, 'checked.journal')
  writeFileSync(file, journal)
  execFileSync('hledger', ['-f', file, 'check', 'ordereddates'])
  return file
}

test('a journal has each month of each partner that owes something, balanced, to the accounts of the settings', async (t) => {
  const office = await autumn(t)
  const range = `--from 2026-09 --to 2026-10 --settings ${office.settings(SETTINGS)}`
  const journal = await office.read(`${EXPORT} ${range}`)
  assert.equal(unaligned(journal), unaligned(JOURNAL))
  const file = join(office.folder, 'autumn.journal')
  assert.deepEqual(await office.json(`--json ${EXPORT} ${range} --output ${file}`), { file, rows: 3 })
  const checkedFile = checked(t, office, readFileSync(file, 'utf8'))
  if (checkedFile === null) return
  const balance = '--flat --no-total --layout bare -O csv'.split(' ')
  const balances = execFileSync('hledger', ['-f', checkedFile, 'balance', ...balance], { encoding: 'utf8' })
  const rows: { total_fee_usd: string }[] = await office.json(
    '--json billing show --from 2026-09 --to 2026-10',
  )
  const owed = rows.reduce((sum, { total_fee_usd }) => sum + Math.round(Number(total_fee_usd) * 100), 0)
  assert.deepEqual(balances.trim().replaceAll('"', '').split('\n').slice(1), [
    'assets:receivable:acme,USD,5168.92',
    'assets:receivable:bolt,USD,50.40',
    'liabilities:vat,USD,-822.93',
    'revenues:saving plans,USD,-4396.39',
  ])
  assert.equal(owed, 439_639)
})

test('what was issued is booked with its number and the tax of then, and a credit note gives back', async (t) => {
  const office = await autumn(t)
  const issuer = { ...PARTY, country: 'CH', numbers: { prefix: 'R-' } }
  const settings = ` --settings ${office.settings({ ...SETTINGS, issuer })}`
  await office.read(`billing issue --month 2026-10 --partner acme${settings}`)
  await office.read(`billing credit R-0001 --usd 10.00 --reason goodwill${settings}`)
  office.setClock(utc(2026, 11, 2))
  office.settings({ ...SETTINGS, issuer, partners: { ...SETTINGS.partners, acme: PARTY } })
  const journal = await office.read(`${EXPORT} --from 2026-10 --to 2026-11${settings} --partner acme`)
  assert.equal(
    unaligned(journal.split('\n\n').slice(1, 3).join('\n\n')),
    unaligned(`2026-10-31 * (R-0001) acme | fees of 2026-10
    assets:receivable:acme   26.94 USD
    revenues:saving plans    -0.50 USD  ; Volume fee
    revenues:saving plans    -0.40 USD  ; User fee
    revenues:saving plans   -24.10 USD  ; Up to the monthly minimum
    liabilities:vat          -1.94 USD

2026-11-02 * (R-0002) acme | credit note for R-0001
    assets:receivable:acme  -10.78 USD
    revenues:saving plans    10.00 USD
    liabilities:vat           0.78 USD`),
  )
  checked(t, office, journal)
})

test('a journal needs no settings, and takes the usual account where they name none', async (t) => {
  const office = await autumn(t)
  const month = `${EXPORT} --month 2026-10`
  const bare = await office.read(month)
  assert.match(bare, /^ {4}assets:receivable:acme +25\.00 USD$/m)
  assert.match(bare, /^ {4}revenues:fees +-0\.50 USD {2}; Volume fee$/m)
  assert.doesNotMatch(bare, /liabilities/)
  const { tax: _, ...two } = ACCOUNTS
  const spaced = { ...two, revenue: 'revenues:saving plans of all our partners' }
  const told = await office.read(`${month} --settings ${office.settings({ ...SETTINGS, accounts: spaced })}`)
  assert.match(told, /^ {4}revenues:saving plans of all our partners +-0\.50 USD/m)
  assert.match(told, /^ {4}liabilities:tax +-1\.94 USD$/m)
  for (const journal of [bare, told]) checked(t, office, journal)
})

test('a journal is of months that are final, of live business, with sound accounts', async (t) => {
  const office = await autumn(t)
  const month = `${EXPORT} --month 2026-10`
  const refused = async (argv: string, settings: unknown, code: number, message: RegExp) => {
    const told = await office.tranche(`${argv} --settings ${office.settings(settings)}`)
    assert.deepEqual([told.code, told.out], [code, ''], told.err)
    assert.match(told.err, message)
  }
  await refused(`${EXPORT} --month 2026-11`, SETTINGS, 2, /2026-11 can still change/)
  await refused(`${month} --env test`, SETTINGS, 2, /Test environments owe nothing/)
  await refused(`${month} --report summary`, SETTINGS, 2, /takes no --report/)
  for (const option of ['--bom', '--raw', '--quote-text', '--totals'])
    await refused(`${month} ${option}`, SETTINGS, 2, /A journal has no cells/)
  await refused('billing export --month 2026-10', SETTINGS, 2, /it goes with --format hledger/)
  await refused(`${month} --delimiter ;`, SETTINGS, 2, /--delimiter.* go with --format csv/)
  const wrong = (more: object, message: RegExp) => refused(month, { ...SETTINGS, ...more }, 1, message)
  const unsound = ['a  b', 'a\u00a0\u00a0b', 'a \u2003b', 'a;b', '(a)', 'a{slug}', ' a', 'a ', '! a']
  for (const receivable of unsound)
    await wrong({ accounts: { ...ACCOUNTS, receivable } }, /accounts\.receivable must be/)
  const untaxed = /partners\.acme\.tax(\.rate|\.exempt)? must (be|not be)/
  for (const tax of ['reverse', { rate: '19.001' }, { rate: 19 }, { exempt: '' }, {}])
    await wrong({ partners: { acme: { ...PARTY, tax } } }, untaxed)
})
