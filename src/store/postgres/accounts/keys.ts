// SCAFFOLD API keys.

import type { KeyStore } from '../../keys.ts'
import type { Connection } from '../server/connection.ts'

export function createKeyStore(_connection: Connection): KeyStore {
  return {} as KeyStore
}
