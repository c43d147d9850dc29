// What one tenant has learnt from the answers it was given, and the ids that it uses again and again.

import { monthOf, plus } from '../../src/core/time.ts'
import { machine } from '../../src/machine.ts'
import type { Noun } from './operations.ts'
import type { Seat } from './target.ts'

type Execution = { id: string; amount: string }
export type World = Seat & {
  executions: Execution[]
  cursors: string[]
  /** Begins the names of one play, so that a play that is tried again finds nothing of the one before. */
  prefix: string
}

const EXECUTIONS_MAX = 50
const CURSORS_MAX = 5
/** How many users a play has. */
export const USERS_PER_PLAY = 4
const NO_EXECUTION: Execution = { id: `exec_${'0'.repeat(32)}`, amount: '10.00' }
/** Endings that make ids of every kind. */
const ENDINGS = ['1', '2', '3', '/4', '%35', '6 é\u{1f680}', "'7", '..', '=8', '"9', '\\10', '?a=b#c']
const WEBHOOKS = [
  'https://127.0.0.1:1/',
  'https://127.0.0.2:1/a?b=c',
  'https://0x7f.1:1/',
  `https://127.0.0.1:1/${'x'.repeat(2_000)}`,
  'https://10.0.0.1/',
  'https://[::1]/',
  'https://169.254.169.254/latest',
  'http://127.0.0.1/',
  'https://[::ffff:7f00:1]/',
]

export const worldOf = (seat: Seat, play: number): World => ({
  ...seat,
  executions: [],
  cursors: [],
  prefix: `${seat.tag}-${play}-`,
})

/** Gives a request its values. The amounts it is given belong to the execution it was given before. */
export function knowledgeOf(world: World, executions = world.executions): (noun: Noun, at: number) => string {
  let execution = executions.at(-1) ?? NO_EXECUTION
  return (noun, at) => {
    if (noun === 'execution') {
      execution = executions.at(-1 - (at % Math.max(1, executions.length))) ?? NO_EXECUTION
      return execution.id
    }
    if (noun === 'amount') return amountFor(execution.amount, at)
    if (noun === 'cursor')
      return world.cursors[at % Math.max(1, world.cursors.length)] ?? 'dXNlciAxNzY5OTA0MDAwMDAwIHVzZXItMQ'
    if (noun === 'month') return monthOf(plus(machine.clock(), (at - 6) * 15 * 86_400_000))
    if (noun === 'webhook') return WEBHOOKS[at % WEBHOOKS.length] ?? ''
    const few = { user: USERS_PER_PLAY, plan: 6, order: 12 }[noun]
    return `${world.prefix}${noun}-${ENDINGS[at % few]}`
  }
}

/** Mostly what was reserved; else a part of it, or a little more. */
function amountFor(reserved: string, at: number): string {
  if (at < 7) return reserved
  return [`${reserved}000000`, '0.01', '0.000000005', `9${reserved}`, '1.005'][at - 7] ?? reserved
}

/** Keeps what the next requests may need. */
export function learn(world: World, body: unknown): void {
  if (Array.isArray(body)) {
    const due = body as { execution_id: string; amount_usd: string }[]
    world.executions.push(
      ...due.map(({ execution_id, amount_usd }) => ({ id: execution_id, amount: amount_usd })),
    )
    world.executions.splice(0, world.executions.length - EXECUTIONS_MAX)
  } else if (
    typeof body === 'object' &&
    body !== null &&
    'next_cursor' in body &&
    typeof body.next_cursor === 'string'
  ) {
    world.cursors.unshift(body.next_cursor)
    world.cursors.splice(CURSORS_MAX)
  }
}
