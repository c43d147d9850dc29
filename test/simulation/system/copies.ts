// Copies of the data, as the commands make them: a backup, its way back, and one in which a bit is flipped.

import { closeSync, copyFileSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import SQLite from 'better-sqlite3'
import type { Machine } from '../../../src/machine.ts'

/** What the commands are told: what --db names, and by which clock. */
type Keeper = { address: string; machine: Machine }

/** Runs a command line in this process. The commands are loaded when they are needed first: few lives need them. */
async function command(argv: readonly string[], machine: Machine): Promise<{ code: number; err: string }> {
  const { runHere } = await import('../../support/service.ts')
  return runHere(argv, { machine })
}

async function done(argv: readonly string[], machine: Machine): Promise<void> {
  const { code, err } = await command(argv, machine)
  if (code !== 0) throw new Error(`tranche ${argv.join(' ')} exits ${code}: ${err}`)
}

/** One for each place; a file keeps it beside itself, so that another process finds it too. */
function backupOf({ address }: Keeper): string {
  if (!address.includes('://')) return `${address}.backup`
  return join(process.env.TMPDIR ?? '/tmp', `${new URL(address).pathname.slice(1)}.backup`)
}

export const backUp = (keeper: Keeper): Promise<void> =>
  done(['--db', keeper.address, 'backup', backupOf(keeper), '--force'], keeper.machine)

/** Puts the backup in place. Nothing has the data open. */
export const restore = (keeper: Keeper): Promise<void> =>
  done(['--db', keeper.address, 'restore', backupOf(keeper), '--force'], keeper.machine)

/** Lets it go on, while the program has it open. */
export const resume = (keeper: Keeper): Promise<void> =>
  done(['--db', keeper.address, 'restore', '--resume'], keeper.machine)

/**
 * Flips bits of a copy, each by itself, and runs `check` on it. Answers what was changed that it did not see, in a
 * column that decides something; null when there is no such thing.
 */
export async function unseenFlip(
  { address, machine }: Keeper,
  places: readonly number[],
): Promise<string | null> {
  const folder = mkdtempSync(join(tmpdir(), 'tranche-flipped-'))
  const copy = join(folder, 'flipped.db')
  const sound = `${copy}.sound`
  try {
    await done(['--db', address, 'backup', copy, '--force'], machine)
    copyFileSync(copy, sound)
    const bits = bitsWorthFlipping(sound)
    for (const place of places) {
      copyFileSync(sound, copy)
      const bit = bits[Math.floor(place * bits.length)]
      if (bit === undefined) continue
      flip(copy, bit)
      if ((await command(['--db', copy, 'check'], machine)).code !== 0) continue
      const changed = changedBetween(sound, copy)
      if (changed !== null) return changed
    }
    return null
  } finally {
    // At once: a process of the simulation flips thousands.
    rmSync(folder, { recursive: true })
  }
}

/** Bytes of rows, as far as pages tell: most of a page is empty, and a flip there changes nothing. */
function bitsWorthFlipping(file: string): number[] {
  const bytes = readFileSync(file)
  const db = new SQLite(file, { readonly: true })
  const names = Object.keys(DECIDING).map(() => '?')
  const pages = db
    .prepare(
      `select pgoffset, pgsize from dbstat where name in (${names}) and pagetype = 'leaf' order by pgoffset`,
    )
    .all(...Object.keys(DECIDING)) as { pgoffset: number; pgsize: number }[]
  db.close()
  return pages.flatMap(({ pgoffset, pgsize }) =>
    Array.from({ length: pgsize }, (_, at) => pgoffset + at).filter((at) => bytes[at] !== 0),
  )
}

/** `place` is that of a byte; which of its bits follows from where it lies. */
function flip(file: string, place: number): void {
  const bytes = readFileSync(file)
  const changed = (bytes[place] ?? 0) ^ (1 << ((place * 7) % 8))
  const to = openSync(file, 'r+')
  writeSync(to, Uint8Array.of(changed), 0, 1, place)
  closeSync(to)
}

type Row = Record<string, unknown>

function changedBetween(sound: string, copy: string): string | null {
  const [before, after] = [sound, copy].map((file) =>
    new SQLite(file, { readonly: true }).defaultSafeIntegers(),
  )
  if (!before || !after) throw new Error('there are two files')
  try {
    for (const [table, columns] of Object.entries(DECIDING)) {
      const sql = `select ${columns} from ${table} not indexed`
      const [was, is] = [before, after].map((db) => db.prepare(sql).all() as Row[])
      const at = was?.findIndex((row, place) => said(row) !== said(is?.[place])) ?? -1
      if (at >= 0) return `${table}: ${said(was?.[at])} became ${said(is?.[at])}`
      if (was?.length !== is?.length) return `${table}: ${was?.length} rows became ${is?.length}`
    }
    return null
  } finally {
    before.close()
    after.close()
  }
}

const said = (row: Row | undefined): string =>
  JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? String(value) : value)) ?? 'nothing'

// The columns that decide money, ownership or access, table by table: none may change without a word of `check`.

const DECIDING: Record<string, string> = {
  partners: 'partner_slug, status, min_tranche, held',
  tenants: 'tenant_id, partner_slug, environment',
  api_keys: 'key_id, tenant_id, key_sha256, expires_at, revoked_at',
  users: 'user_id, tenant_id, partner_user_id, status',
  consents: 'user_id, consent_version, consent_timestamp, received_at',
  plans: `plan_id, tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
    start_date, status`,
  windows: 'window_id, plan_id, window_start, window_end, budget, reserved, spent, released, excess',
  schedules: `plan_id, window_id, awake, window_start, window_end, budget, fireable, floor, tranche_index`,
  executions: `execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd, created_at,
    status, cancelled_at`,
  trades: `execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
    execution_price, partner_fee_usd, executed_at, recorded_at`,
  // Whether it was accepted; when is only shown, and the audit log has it as well.
  late_reports: `execution_id, tenant_id, partner_order_id, status, usd_amount, btc_amount, execution_price,
    partner_fee_usd, executed_at, received_at, accepted_at is null as is_waiting`,
  adjustments: `execution_id, tenant_id, plan_id, user_id, usd_amount, btc_amount, recorded_at, partner_order_id`,
  webhooks: 'tenant_id, url, secret, status',
  tiers: 'name, from_month, place, min_volume_usd, rate_bps, per_active_user_usd, monthly_minimum_usd',
  tier_overrides: 'partner_slug, from_month, tier_name',
  minimum_ends: 'partner_slug, from_month, last_month',
}
