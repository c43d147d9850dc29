// SCAFFOLD Users.

import type { UserStore } from '../../users.ts'
import type { Connection } from '../server/connection.ts'

export function createUserStore(_connection: Connection): UserStore {
  return {} as UserStore
}
