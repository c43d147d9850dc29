// How V8 is to collect what the calls of a service leave behind.

import { setFlagsFromString } from 'node:v8'

/**
 * What often survives its nursery V8 would make old from the start: here, pieces of calls that wait for their turn or
 * their commit. Dead, each of them would keep its whole call until the next full collection. Set by a service alone and
 * while it runs: an option of the executable would cost every start the code that Node has compiled in advance.
 */
export const keepCallsYoung = (): void => setFlagsFromString('--no-allocation-site-pretenuring')
