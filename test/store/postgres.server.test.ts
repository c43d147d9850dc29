// The contract of every store, kept by PostgreSQL.

import { storeContract } from './contract.ts'

storeContract('PostgreSQL', new URL('./postgres.ts', import.meta.url))
