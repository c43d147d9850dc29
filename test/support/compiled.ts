// Where processes that tests start keep the source as Node compiles it: the first one leaves it for all others. A
// process that runs TypeScript so, without tsx, is there in half the time.

import { join } from 'node:path'

export const COMPILED = { NODE_COMPILE_CACHE: join(import.meta.dirname, '../../dist/.compiled') }
