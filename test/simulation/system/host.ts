// Where the program runs: in this process, or in one that can be killed.

import type { Deed } from '../action.ts'
import type { Lines, Seen } from './observed.ts'
import { readRecord } from './record.ts'
import { openSystem, type System, type SystemOptions } from './system.ts'

export type Host = {
  perform: (deed: Deed) => Promise<Seen>
  /** The first thing that `check` finds, or null. */
  firstFault: () => Promise<string | null>
  record: () => Promise<Lines>
  /** The first breach of a rule that the data themselves do not refuse, or null. */
  firstTaken: () => Promise<string | null>
  close: () => Promise<void>
}

export async function hostHere(options: SystemOptions): Promise<Host & { system: System }> {
  const system = await openSystem(options)
  return {
    system,
    perform: system.perform,
    async firstFault() {
      const [fault] = await system.store().findFaults()
      return fault ? `${fault.kind}: ${fault.subject} ${fault.message}` : null
    },
    record: () => readRecord(system.store()),
    firstTaken: async () => (await options.access.forbidden())[0] ?? null,
    close: system.close,
  }
}
