// A life on both stores at once: PostgreSQL is called first, SQLite then does the same in the resulting order, and both
// must have answered the same, byte for byte.

import { isDeepStrictEqual } from 'node:util'
import { REPORTS } from '../../src/billing/columns.ts'
import type { Store } from '../../src/store/store.ts'
import { type Deed, deedOf } from './action.ts'
import { judge, type OpenStage, resolvable } from './life.ts'
import { monthBounds, monthOf, presentOf } from './model/state.ts'
import { Difference, type Lines, NO_NEWS, type Seen } from './observed.ts'
import { lateAfter } from './system/deeds.ts'
import { accessTo, makePlace } from './system/place.ts'
import { exportText } from './system/record.ts'
import { type Host, hostHere } from './system/system.ts'

export const onBoth =
  (server: string): OpenStage =>
  async (options) => {
    const places = await Promise.all([makePlace(server), makePlace(null)])
    const hosts = await Promise.all(
      places.map(({ place }) => hostHere({ access: accessTo(place), ...options })),
    )
    const [postgres, sqlite] = hosts
    if (!postgres || !sqlite) throw new Error('there are two places')
    return {
      host: both(postgres, sqlite),
      act: (state, action) =>
        resolvable(async () => {
          const deed = deedOf(state, action)
          const twin = await renumbered(deed, postgres.system.store(), sqlite.system.store())
          const seen = await postgres.perform(deed)
          const order = await judge(state, action, { seen, readRecord: postgres.record })
          const again = await sqlite.perform(inOrder(twin, order))
          refuseDifference(deed.do, said(seen), said(again))
        }),
      alter: (action) => action,
      async end(state) {
        for (const month of monthsBetween(options.start, presentOf(state))) {
          for (const report of REPORTS) {
            const [here, there] = await Promise.all(
              hosts.map(({ system }) => exportText(system.store(), { month, report })),
            )
            refuseDifference(`${report} of ${month}`, here, there)
          }
        }
      },
      async close() {
        await Promise.all(hosts.map((host) => host.close()))
        for (const { remove } of places) await remove()
      },
    }
  }

const inOrder = (deed: Deed, order: readonly number[] | null): Deed =>
  deed.do === 'together' && order ? { ...deed, order } : deed

/** The answers without the news: numbers may have gaps. */
const said = (seen: Seen): Seen => ('news' in seen ? { ...seen, news: NO_NEWS } : seen)

/** Calls one after the other; their answers must be equal. */
function both(postgres: Host, sqlite: Host): Host {
  const alike = async <T>(what: string, ask: (host: Host) => Promise<T>): Promise<T> => {
    const [here, there] = [await ask(postgres), await ask(sqlite)]
    refuseDifference(what, here, there)
    return here
  }
  return {
    perform: () => Promise.reject(new Error('done by both in turn')),
    firstFault: () => alike('what check finds', (host) => host.firstFault()),
    async record() {
      const [here, there] = [await postgres.record(), await sqlite.record()]
      refuseDifference('what is on record', ranked(here), ranked(there))
      return here
    },
    close: () => Promise.reject(new Error('closed with the stage')),
  }
}

/** Late fills by their places in the order of their numbers: the numbers themselves have gaps on a server. */
const ranked = (record: Lines): Lines => ({
  ...record,
  late: record.late
    .map((line) => /^(\d+)(.*)$/s.exec(line))
    .toSorted((a, b) => Number(a?.[1]) - Number(b?.[1]))
    .map((parts, rank) => `${rank + 1}${parts?.[2]}`),
})

/** A deed for the second store, as done at the first: a late fill is named by its number, which may differ. */
async function renumbered(deed: Deed, first: Store, second: Store): Promise<Deed> {
  if (deed.do !== 'lever' || !('number' in deed)) return deed
  const { number } = deed
  const [here, there] = [await lateAfter(first, null), await lateAfter(second, null)]
  const same = there[here.findIndex((late) => late.number === number)]
  return same ? { ...deed, number: same.number } : deed
}

function refuseDifference(what: string, postgres: unknown, sqlite: unknown): void {
  if (isDeepStrictEqual(postgres, sqlite)) return
  throw new Difference(`the stores differ in ${what}\n${firstDifference(show(postgres), show(sqlite))}`)
}

/** The number of characters shown around the first difference. */
const AROUND = 200

function firstDifference(postgres: string, sqlite: string): string {
  let at = 0
  while (at < postgres.length && postgres[at] === sqlite[at]) at += 1
  const part = (text: string) => text.slice(Math.max(0, at - AROUND), at + AROUND)
  return `  PostgreSQL: ${part(postgres)}\n  SQLite:     ${part(sqlite)}`
}

const show = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

function monthsBetween(start: number, end: number): string[] {
  const months: string[] = []
  for (let at = start; monthOf(at) <= monthOf(end); at = monthBounds(monthOf(at)).end)
    months.push(monthOf(at))
  return months
}
