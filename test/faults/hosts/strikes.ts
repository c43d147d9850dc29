// What is done to a database of many hosts while it works: to a service, a ticker, a session, the network, either
// server.

import { setTimeout as pause } from 'node:timers/promises'
import type { Fate } from '../../support/cutting-proxy.ts'
import { within } from '../../support/within.ts'
import type { Host } from './hosts.ts'
import type { Scene } from './scene.ts'

export type Strike = {
  name: string
  /** How often in a deck. */
  times: number
  /**
   * Done when everything is as it was. Answers whether something was hit in the middle of its work, if that can be
   * seen.
   */
  strike: (scene: Scene) => Promise<boolean>
}

const DEAD_MAX_MS = 60_000
/** How long something is kept from its work; one in so many times longer than the server bears an idle transaction. */
const STOPPED_MS = 600
const STOPPED_LONG_MS = 11_000
const LONG_ONE_IN = 25

const anyOf = <T>({ random }: Scene, of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
const aWhile = ({ random }: Scene): Promise<void> => pause(50 + random() * STOPPED_MS)

async function standStill(scene: Scene, host: Host): Promise<boolean> {
  await host.ready()
  const child = host.child()
  child.kill('SIGSTOP')
  try {
    if (scene.random() < 1 / LONG_ONE_IN) await pause(STOPPED_LONG_MS)
    else await aWhile(scene)
  } finally {
    child.kill('SIGCONT')
    host.disturbedAt = performance.now()
  }
  return false
}

/** Whether a pass is under way that nobody has finished. */
async function passIsOpen({ cluster }: Scene): Promise<boolean> {
  const rows = await cluster.ask(
    'select 1 from (select finished_at from tranche.ticks order by tick_id desc limit 1) t where finished_at is null',
  )
  return rows.length > 0
}

const FATES: readonly Fate[] = ['answer lost', 'never arrives']
const MET_MAX_MS = 2_000

export const STRIKES: readonly Strike[] = [
  {
    name: 'serve killed',
    times: 5,
    strike: async (scene) => anyOf(scene, scene.services).kill(),
  },
  {
    name: 'serve stopped',
    times: 1,
    strike: (scene) => standStill(scene, anyOf(scene, scene.services)),
  },
  {
    name: 'ticker killed',
    times: 3,
    async strike(scene) {
      const killed = anyOf(scene, scene.tickers).kill()
      const isOpen = await passIsOpen(scene)
      return (await killed) && isOpen
    },
  },
  {
    name: 'ticker stopped',
    times: 2,
    strike: (scene) => standStill(scene, anyOf(scene, scene.tickers)),
  },
  {
    name: 'sessions ended',
    times: 3,
    async strike(scene) {
      const rows = await scene.cluster.ask<{ active: boolean }>(
        `select pg_terminate_backend(pid), state <> 'idle' as active from pg_stat_activity
         where application_name = 'tranche' and random() < $1`,
        [scene.random()],
      )
      return rows.some(({ active }) => active)
    },
  },
  {
    name: 'network cut',
    times: 3,
    async strike(scene) {
      if (scene.random() < 0.3) {
        scene.proxy.cut()
        return false
      }
      const met = scene.proxy.next(anyOf(scene, FATES)).then(() => true)
      return Promise.race([met, pause(MET_MAX_MS).then(() => false)])
    },
  },
  {
    name: 'primary killed',
    times: 2,
    strike: async ({ cluster }) => cluster.crash().then(() => false),
  },
  {
    name: 'primary stopped',
    times: 1,
    strike: async (scene) => scene.cluster.freeze(() => aWhile(scene)).then(() => false),
  },
  {
    name: 'standby stopped',
    times: 1,
    async strike(scene) {
      await scene.cluster.withoutStandby('frozen', () => aWhile(scene))
      return false
    },
  },
  {
    name: 'standby killed',
    times: 1,
    async strike(scene) {
      await scene.cluster.withoutStandby('killed', () => aWhile(scene))
      return false
    },
  },
  {
    name: 'failover',
    times: 1,
    strike: async (scene) => scene.cluster.failOver(anyOf(scene, ['killed', 'frozen'])).then(() => false),
  },
  {
    name: 'advance killed',
    times: 1,
    async strike(scene) {
      const started = scene.start(['sandbox', 'advance', 'acme', '2d', '--price', '60000'])
      await Promise.race([pause(scene.random() * STOPPED_MS), started.ended])
      started.child.kill('SIGKILL')
      return (await within(DEAD_MAX_MS, 'the advance is dead', started.ended)) === 'SIGKILL'
    },
  },
]

/** Each of them as often as it has times, shuffled; the first of each before any second. */
export function deck(random: () => number): Strike[] {
  const shuffled = (of: Strike[]): Strike[] =>
    of
      .map((one) => ({ one, at: random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ one }) => one)
  const more = STRIKES.flatMap((one) => Array.from({ length: one.times - 1 }, () => one))
  return [...shuffled([...STRIKES]), ...shuffled(more)]
}
