// How long a program goes between two commits, seen from outside: while it works, others wait for its lock.

import { type Database, openFile } from '../../../src/store/sqlite/file/connection.ts'
import type { Commits } from '../backend.ts'
import { percentile } from '../ratios.ts'

const LOOK_MS = 1

/** Asks a database of its own connection, every millisecond, whether another one has committed. */
export class CommitWatch implements Commits {
  readonly #db: Database
  readonly #gaps: number[] = []
  readonly #timer: NodeJS.Timeout
  #version: unknown
  #at: number | null = null

  constructor(file: string) {
    this.#db = openFile(file)
    this.#version = this.#look()
    this.#timer = setInterval(() => this.#note(), LOOK_MS)
  }

  #look(): unknown {
    return this.#db.pragma('data_version', { simple: true })
  }

  #note(): void {
    const version = this.#look()
    if (version === this.#version) return
    this.#version = version
    const now = performance.now()
    if (this.#at !== null) this.#gaps.push(now - this.#at)
    this.#at = now
  }

  async end(): Promise<void> {
    clearInterval(this.#timer)
    this.#db.close()
  }

  /** The milliseconds between two commits, at this share of them; the first commit has none before it. */
  between(share: number): number {
    return percentile(this.#gaps, share)
  }
}
