// SCAFFOLD Sandboxes.

import type { SandboxStore } from '../../sandboxes.ts'
import type { Connection } from '../server/connection.ts'

export function createSandboxStore(_connection: Connection): SandboxStore {
  return {} as SandboxStore
}
