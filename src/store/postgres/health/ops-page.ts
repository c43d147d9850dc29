// The reads of the page of the operator.

import { opsPageReader } from '../../common/health/ops-page.ts'
import type { OpsPageStore } from '../../ops-page.ts'
import type { Connection } from '../server/connection.ts'
import { readerOf } from '../server/reader.ts'
import { OPS_SQL } from './statements.ts'

export const createOpsPageStore = (connection: Connection): OpsPageStore =>
  opsPageReader(readerOf(connection), OPS_SQL)
