// Writes that were answered and that the database has lost since.

import type { LostWrites } from '../core/lost-writes.ts'
import type { AuditEntry } from './audit.ts'

export interface LostWriteStore {
  /**
   * What is undecided, all in one; null when nothing is. On a server, first holds what this process was told is
   * committed against what the server has. A file has nothing of the kind: its log says what was committed.
   */
  readLostWrites(): Promise<LostWrites | null>
  /** Decides that the database goes on as it is, and returns what was undecided. Throws usage when nothing is. */
  resume(entry: AuditEntry): Promise<LostWrites>
}
