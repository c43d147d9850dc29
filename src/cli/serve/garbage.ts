// How V8 is to collect what the calls of a service leave behind.

import { setFlagsFromString } from 'node:v8'

/**
 * Only a service sets these, and while it runs: as options of the executable, they would make every start lose the code
 * that Node has compiled in advance.
 */
export function keepHeapSmall(): void {
  // V8 allocates objects that often survive its nursery as old ones: here, pieces of calls that wait for their turn or
  // their commit. Once dead, each of them would keep its whole call in memory until the next full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // A full collection when the heap has grown by a third, not when it has doubled.
  setFlagsFromString('--memory-saver-mode')
}
