// The contract of every store, kept by PostgreSQL.

import { test } from 'node:test'
import { hasTool, isMissing } from '../support/tools.ts'
import { storeContract } from './contract.ts'

if (isMissing('postgres')) test('the contract on PostgreSQL', (t) => void hasTool(t, 'postgres'))
else storeContract('PostgreSQL', new URL('./postgres.ts', import.meta.url))
