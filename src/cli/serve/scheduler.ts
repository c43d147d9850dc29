// The scheduler inside serve: a pass at once and then at every interval.

import { Problem } from '../../core/problem.ts'
import { type PassOptions, type PassReport, runPass } from '../../engine/pass.ts'
import type { Log } from '../../log.ts'
import type { Deliver } from '../../webhook/deliver.ts'
import { wakePartners } from '../../webhook/wake-partners.ts'
import { nameFailures } from '../tick/failed-plans.ts'
import { passJson } from '../tick/pass-json.ts'
import type { Ping } from '../tick/ping.ts'

export type SchedulerOptions = PassOptions & { deliver: Deliver; log: Log; ping: Ping }

/** A pass that fails is logged and the next one tries again. `stop` waits for what is under way. */
export function startScheduler(options: SchedulerOptions, everyMs: number): { stop: () => Promise<void> } {
  const { store, machine, deliver, log, ping } = options
  const underWay = new Set<Promise<void>>()
  let timer: NodeJS.Timeout | undefined
  let stopping = false

  const follow = (work: Promise<void>): void => {
    const tracked = work.finally(() => underWay.delete(tracked))
    underWay.add(tracked)
  }

  async function pass(): Promise<void> {
    const started = performance.now()
    try {
      const report = await runPass(options)
      const durationMs = performance.now() - started
      const failures = await nameFailures(store, report?.failed ?? [])
      for (const failure of failures) log.error({}, failure)
      follow(finish(report, durationMs))
      // As with a tick from cron: one that was skipped says nothing.
      if (report) follow(ping(failures.length > 0 ? failures.join('\n') : null))
    } catch (error) {
      const why = error instanceof Problem ? { code: error.code, error: error.message } : { err: error }
      log.error(why, 'tick failed')
      follow(ping((error as Error).message))
    }
    if (!stopping) timer = setTimeout(next, Math.max(0, everyMs - (performance.now() - started)))
  }

  /**
   * Wakes the partners and logs the tick. The lock of the pass is free by now, so a slow receiver does not hold up the
   * next pass.
   */
  async function finish(report: PassReport | null, durationMs: number): Promise<void> {
    const warn = (message: string, fields: object): void => log.warn(fields, message)
    const woken =
      report?.whole && (await wakePartners(report.whole, { store, deliver: async () => deliver, warn }))
    log.info(passJson({ report, woken, now: machine.clock(), durationMs }), 'tick')
  }

  const next = (): void => follow(pass())
  next()

  return {
    async stop() {
      stopping = true
      clearTimeout(timer)
      while (underWay.size > 0) await Promise.all(underWay)
    },
  }
}
