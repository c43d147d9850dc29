// The month in which the database would record a change now. Its clock is not that of the machine that asks: on a
// server it is the server's.

import { monthOf } from '../../core/instant.ts'
import type { Store } from '../../store/store.ts'

export const presentMonth = async (store: Pick<Store, 'readClock'>): Promise<string> =>
  monthOf((await store.readClock()).now)
