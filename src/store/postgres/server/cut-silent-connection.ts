// Cuts a connection whose server has been silent for too long (timeouts.ts). A healthy server ends what takes too long
// and says so. One that hangs, or whose network is cut, does not, and its client would wait forever.

import type { Socket } from 'node:net'
import type { ClientBase } from 'pg'
import { Silence } from './error-kinds.ts'
import { PATIENCE, type Patience } from './timeouts.ts'

export type Watch = {
  /** Something was asked, after everything that was asked before. */
  asked: (patience: Patience) => void
  /** The oldest question was answered. */
  answered: () => void
}

/** Cuts a connection whose server has not answered the oldest question in time: all that was asked then fails. */
export function watchOver(client: ClientBase): Watch {
  const waiting: Patience[] = []
  let timer: NodeJS.Timeout | undefined

  function wait(): void {
    clearTimeout(timer)
    const [patience = null] = waiting
    timer = patience === null ? undefined : setTimeout(() => cut(client, new Silence(patience)), patience)
  }

  return {
    asked(patience) {
      waiting.push(patience)
      if (waiting.length === 1) wait()
    },
    answered() {
      waiting.shift()
      wait()
    },
  }
}

/** Not by closing it properly, which nobody would hear. */
const cut = (client: ClientBase, why: Error): void => {
  ;(client as unknown as { connection: { stream: Socket } }).connection.stream.destroy(why)
}

/** The same for the questions that are asked one by one, before anything else. */
export const impatient = (asked: Pick<ClientBase, 'query'>): Pick<ClientBase, 'query'> => ({
  query: ((text: string, values: unknown[] = []) =>
    asked.query({ text, values, query_timeout: PATIENCE.first } as never)) as unknown as ClientBase['query'],
})
