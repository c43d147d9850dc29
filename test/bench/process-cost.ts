// What a process costs its machine, as Linux tells it. Other systems tell nothing here, and the figures are left out.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isServer } from '../../src/store/address.ts'

/** Linux counts processor time in hundredths of a second, whatever its own clock does. */
const TICK_US = 10_000
const KIB_PER_MIB = 1024

/** Processor time that a process has had so far, in microseconds, in all its threads. */
export const cpuUsOf = (pid: number): number => ticks(String(pid), 'own')

/** Processor time of all processes that this one has started and seen the end of. */
export const cpuUsOfEnded = (): number => ticks('self', 'ended children')

/**
 * Processor time that the server of a database has had so far, in all its processes; not a number for a file. The
 * server listens in its own folder, as those of test/support/postgres-server.ts do.
 */
export function databaseCpuUs(database: string): number {
  if (!isServer(database)) return Number.NaN
  const folder = new URL(database).searchParams.get('host') ?? ''
  const [first = ''] = read(join(folder, 'data/postmaster.pid')).split('\n')
  const children = read(`/proc/${first}/task/${first}/children`).split(' ').filter(Boolean)
  // One that ends between two looks is then among those that have ended.
  const each = children.map((pid) => ticks(pid, 'own')).filter(Number.isFinite)
  return each.reduce((sum, us) => sum + us, ticks(first, 'own') + ticks(first, 'ended children'))
}

/** Memory that a process holds now. */
export const residentMib = (pid: number): number => statusMib(pid, 'VmRSS')

/** The most memory that it ever held. */
export const peakMib = (pid: number): number => statusMib(pid, 'VmHWM')

function ticks(pid: string, whose: 'own' | 'ended children'): number {
  const stat = read(`/proc/${pid}/stat`)
  // The name in brackets may hold blanks; what follows it begins with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const from = whose === 'own' ? 11 : 13
  return (Number(fields[from]) + Number(fields[from + 1])) * TICK_US
}

function statusMib(pid: number, field: string): number {
  return (
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(read(`/proc/${pid}/status`))?.[1]) / KIB_PER_MIB
  )
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The figures without those that are not numbers. */
export function known<T extends Record<string, number>>(figures: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(figures).filter(([, value]) => Number.isFinite(value)),
  ) as Partial<T>
}
