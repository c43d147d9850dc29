// How V8 is to collect what the calls of a service leave behind.

import { setFlagsFromString } from 'node:v8'

/**
 * V8 allocates objects that often survive its nursery as old ones: here, pieces of calls that wait for their turn or
 * their commit. Once dead, each of them would keep its whole call in memory until the next full collection. Only a
 * service sets this, and while it runs: as an option of the executable, it would make every start lose the code that
 * Node has compiled in advance.
 */
export const keepCallsYoung = (): void => setFlagsFromString('--no-allocation-site-pretenuring')
