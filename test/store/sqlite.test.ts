// The contract of every store, on SQLite.

import { storeContract } from './contract.ts'

storeContract('SQLite', new URL('./sqlite.ts', import.meta.url))
