// The contract of every store, on PostgreSQL.

import { storeContract } from './contract.ts'

storeContract('PostgreSQL', new URL('./postgres.ts', import.meta.url))
