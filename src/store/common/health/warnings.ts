// What is not wrong yet but may become so. To what is found at a glance (core/findings.ts), the check adds what takes
// more reading: keys that end, figures that contradict each other, traces of a wrong clock, and what concerns one store
// alone.

import { counted } from '../../../core/counted.ts'
import { fillEarly } from '../../../core/early-fill.ts'
import { type Finding, findingsOf, ticket } from '../../../core/findings.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Environment } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Look } from '../../check.ts'
import { type Reader, sql } from '../reader.ts'
import { rolledAhead, setBack } from './clock-warnings.ts'
import { earlyFillsReader } from './early-fills.ts'
import { keysThatEnd } from './key-warnings.ts'
import { mispricedTrades } from './mispriced-fills.ts'
import { stockTaker } from './plans-and-unspent-windows.ts'
import { type VitalParts, vitalsReader } from './vitals.ts'

export type WarningParts = {
  clock: () => Promise<Instant>
  vitals: VitalParts
  listAhead: WindowStore['listAhead']
  /** What concerns this store alone. */
  looks: readonly Look[]
}

export function warningsOf(reader: Reader, parts: WarningParts): CheckStore['findWarnings'] {
  const { clock } = parts
  const looks: Record<Environment, readonly Look[]> = {
    live: [
      glance(reader, parts.vitals),
      keysThatEnd(reader),
      mispricedTrades(reader, 'live'),
      setBack(reader),
      rolledAhead(parts.listAhead),
      ...parts.looks,
    ],
    test: [earlyInTest(reader), mispricedTrades(reader, 'test')],
  }
  return async (environment = 'live') => {
    const found: Finding[] = []
    for (const look of looks[environment]) found.push(...(await look(clock).catch(noneIfDamaged)))
    return found
  }
}

/** What cannot be read is a fault, and the check has already said so. */
function noneIfDamaged(error: unknown): Finding[] {
  if (error instanceof Problem && error.code === 'database_damaged') return []
  throw error
}

function glance(reader: Reader, parts: VitalParts): Look {
  const [takeStock, readVitals] = [stockTaker(reader), vitalsReader(reader, parts)]
  return async (clock) => {
    const now = await clock()
    return findingsOf(await readVitals(now, await takeStock(now)), now)
  }
}

function earlyInTest(reader: Reader): Look {
  const read = earlyFillsReader(reader)
  return async (clock) =>
    (await read('test', await clock()))
      .map(fillEarly)
      .map(({ kind, subject, message, ...more }) => ticket(kind, subject, message, more))
}

export const IMPORT_ROWS = sql<{ n: bigint }>('select count(*) as n from price_imports')

export function importLeft(rows: bigint): Finding {
  const message = `${counted(Number(rows), 'row')} of an import that was cut off; none of them counts, and the next import clears them`
  return ticket('import_left', 'price import', message, { next: ['tranche', 'price', 'import', 'FILE'] })
}
