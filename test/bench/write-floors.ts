// What a write over HTTP is held against: the same transaction by hand, one or many a commit, and the call alone.

import type { Backend, Raw, RawJob } from './backend.ts'
import { startBare } from './bare-server.ts'
import type { Load } from './loading.ts'
import { cpuOf, rateTo } from './ratios.ts'
import type { Contestant, Goal, Ratio, Stage } from './row.ts'

/** Writes that share a commit when many connections write. */
const SHARED = 64
export const ALONE = 'raw, one a commit'
export const TOGETHER = `raw, ${SHARED} a commit`
/** As many connections as a serve has to a server. */
const CONNECTIONS = 10
export const MANY = `raw, one a commit, ${CONNECTIONS} connections`
const DUTIES = 'h3 with duties'
const IN_SERIES = `h3 and ${TOGETHER}, in series`

/** Of a write over many connections. A call and its write need the same thread, one after the other. */
export const WRITE_RATIOS: Ratio[] = [
  rateTo(IN_SERIES, 'h3', TOGETHER),
  cpuOf('h3 and raw', 'h3', TOGETHER),
  cpuOf('h3 with duties and raw', DUTIES, TOGETHER),
]
export const WRITE_GOAL: Goal = { ratio: `rate to ${IN_SERIES}`, atLeast: 0.6 }

/** Of a write over one connection, which waits for the call and then for its commit. */
export const LONE_RATIOS: Ratio[] = [rateTo(ALONE, ALONE), rateTo(`h3 and ${ALONE}, in series`, 'h3', ALONE)]
export const LONE_GOAL: Goal = { ratio: `rate to ${ALONE}`, atLeast: 0.6 }

type Written = {
  on: Backend
  raw: Raw
  work: RawJob['work']
  database: string
  calls: number
  /** How ours commits on a server: many together, or each for itself on a connection of its own. */
  onServer: typeof TOGETHER | typeof MANY
}

/** The write by hand on a copy of a database: one a commit, and over many connections as ours does it. */
export function byHand(written: Written, connections: number): Contestant[] {
  const { on, raw, work, database, calls, onServer } = written
  const take =
    (count: number, perCommit: number, connections = 1) =>
    async () =>
      raw({ work, database: await on.copyOf(database, 'raw'), count, perCommit, connections })
  const floor = (name: string, take: Contestant['take']): Contestant => ({ name, role: 'floor', take })
  if (connections === 1) return [floor(ALONE, take(calls, 1))]
  const together = floor(TOGETHER, take(calls, SHARED))
  if (on.store === 'file')
    // One sync each takes its time: where it is not what is compared, fewer of them tell the rate.
    return [floor(ALONE, take(calls / 6, 1)), together]
  return [onServer === TOGETHER ? together : floor(MANY, take(calls, 1, CONNECTIONS))]
}

/** The call alone, bare and with its duties; over one connection bare only. */
export async function calledOnly(
  stage: Stage,
  load: Load,
  job: Parameters<Load>[1] & { connections: number },
): Promise<Contestant[]> {
  const kinds = job.connections === 1 ? (['h3'] as const) : (['h3', DUTIES] as const)
  const contestants: Contestant[] = []
  for (const name of kinds) {
    const server = await startBare(stage, name)
    await load(server, job)
    contestants.push({ name, role: 'floor', take: () => load(server, job) })
  }
  return contestants
}
