// Commands and processes whose clock is wrong, beside a database and a ticker whose clock is right.

import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Instant, plus } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import type { Store } from '../../src/store/store.ts'
import { startTicker } from '../price/ticker.ts'
import { link, populate, sendPlan } from '../store/world.ts'
import { openFresh, temporaryFolder } from '../support/database.ts'
import { finish, type Program, SOURCE, startServe } from '../support/process.ts'
import { type Outcome, runHere } from '../support/service.ts'

const [NODE, ...REST] = SOURCE
/** The program with its clock SHIFT_MS off. */
export const SHIFTED: Program = [NODE, '--import', join(import.meta.dirname, 'shift.mjs'), ...REST]

export const now = machine.clock

export type Shop = {
  cwd: string
  store: Store
  /** The feed: a ticker of this machine that reports the right time, or another one. */
  feed: string
  /** The headers of the ticker's answers. */
  headers: Record<string, string>
  /** Runs a command whose clock is `shiftMs` off: it knows nothing but the file. */
  run: (shiftMs: number, ...argv: string[]) => Promise<Outcome>
  /** Runs it in a process of its own, whose own clock is off. */
  runApart: (shiftMs: number, ...argv: string[]) => ReturnType<typeof finish>
  serve: (shiftMs: number, ...argv: string[]) => ReturnType<typeof startServe>
}

/** A database in the real present with three daily plans of a live partner, and a ticker. */
export async function openShop(t: TestContext): Promise<Shop> {
  const cwd = temporaryFolder(t)
  const store = await openFresh(join(cwd, 'tranche.db'), now)
  t.after(() => store.close())
  const { acmeLive } = await populate(store)
  await link(store, acmeLive)
  for (const id of ['p1', 'p2', 'p3']) await sendPlan(store, acmeLive, { partnerPlanId: id })
  const headers: Record<string, string> = {}
  const { origin } = await startTicker(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers })
    response.end('{"price":"64250.50"}')
  })
  const env = (shiftMs: number) => ({ SHIFT_MS: String(shiftMs) })
  return {
    cwd,
    store,
    feed: `${origin}#/price`,
    headers,
    run: (shiftMs, ...argv) =>
      runHere(['--db', join(cwd, 'tranche.db'), ...argv], {
        machine: { ...machine, clock: () => plus(now(), shiftMs) },
      }),
    runApart: (shiftMs, ...argv) => finish(t, argv, { cwd, env: env(shiftMs), program: SHIFTED }),
    serve: (shiftMs, ...argv) =>
      startServe(t, argv, { cwd, ...(shiftMs !== 0 && { env: env(shiftMs), program: SHIFTED }) }),
  }
}

/** An instant as the Date header has it. */
export const httpDate = (at: Instant): string => new Date(at).toUTCString()
