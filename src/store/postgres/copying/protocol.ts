// Copies a table over a connection: out of the server as fast as the reader takes the lines, and into it as fast as the
// server takes them. The driver knows these messages, and leaves handling them to its caller.

import type { Socket } from 'node:net'
import type { Client } from 'pg'
import { type Block, withOurNumbers } from '../../copying/lines.ts'
import type { Table } from '../../copying/tables.ts'

/** What the driver's connection can do besides queries. */
type Wire = {
  stream: Socket
  query(text: string): void
  sync(): void
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
  sendCopyFail(message: string): void
}

/** What the driver requires of a query that handles its own messages. */
abstract class Copy {
  readonly ended: Promise<void>
  protected wire: Wire | undefined
  protected error: Error | undefined
  readonly #text: string
  readonly #end: () => void

  constructor(text: string) {
    this.#text = text
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#end = resolve
  }

  submit(wire: Wire): void {
    this.wire = wire
    wire.query(this.#text)
  }

  handleReadyForQuery(): void {
    this.#end()
  }
  handleError(error: Error): void {
    this.error ??= error
    // The driver reports nothing further about a query that has failed.
    this.#end()
  }
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}

const LINES_PER_BLOCK = 2_000
/** How much is held for a slow reader before the server has to wait. */
const BLOCKS_WAITING = 4

class CopyOut extends Copy {
  #lines: Buffer[] = []
  #blocks: Block[] = []
  #told: (() => void) | undefined
  #isOver = false

  constructor(text: string) {
    super(text)
    void this.ended.then(() => {
      this.#cut()
      this.#isOver = true
      this.#told?.()
    })
  }

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    // The driver reuses the memory of a message.
    this.#lines.push(Buffer.from(chunk))
    if (this.#lines.length < LINES_PER_BLOCK) return
    this.#cut()
    if (this.#blocks.length >= BLOCKS_WAITING) this.wire?.stream.pause()
  }

  #cut(): void {
    if (this.#lines.length === 0) return
    this.#blocks.push({ text: Buffer.concat(this.#lines).toString(), rows: this.#lines.length })
    this.#lines = []
    this.#told?.()
  }

  async *blocks(): AsyncGenerator<Block> {
    for (;;) {
      const block = this.#blocks.shift()
      if (block) {
        yield block
        continue
      }
      if (this.#isOver) break
      this.wire?.stream.resume()
      await new Promise<void>((resolve) => {
        this.#told = resolve
      })
    }
    if (this.error) throw this.error
  }
}

class CopyIn extends Copy {
  readonly #ready = Promise.withResolvers<Wire | null>()

  constructor(text: string) {
    super(text)
    void this.ended.then(() => this.#ready.resolve(null))
  }

  handleCopyInResponse(wire: Wire): void {
    this.#ready.resolve(wire)
  }

  async send(blocks: AsyncIterable<Block>): Promise<void> {
    const wire = await this.#ready.promise
    try {
      if (wire)
        for await (const { text } of blocks) {
          if (this.error) break
          wire.sendCopyFromChunk(Buffer.from(text))
          if (wire.stream.writableNeedDrain) await Promise.race([drained(wire.stream), this.ended])
        }
      if (!this.error) wire?.endCopyFrom()
    } catch (error) {
      wire?.sendCopyFail('the source could not be read')
      await this.ended
      throw error
    }
    await this.ended
    if (this.error) throw this.error
  }
}

const drained = (stream: Socket): Promise<void> =>
  new Promise((resolve) => stream.once('drain', () => resolve()))

const columnsOf = ({ columns }: Table): string => columns.map(({ name }) => name).join(', ')

/** All rows of a table in the order of its key. Nothing else may be asked of the client until they are all read. */
export async function* copyOut(client: Client, select: string, table: Table): AsyncGenerator<Block> {
  const copy = new CopyOut(`copy (${select}) to stdout`)
  client.query(copy as never)
  for await (const { text, rows } of copy.blocks()) yield { text: withOurNumbers(text, table), rows }
}

export async function copyIn(client: Client, table: Table, blocks: AsyncIterable<Block>): Promise<void> {
  const copy = new CopyIn(`copy ${table.name} (${columnsOf(table)}) from stdin`)
  client.query(copy as never)
  await copy.send(blocks)
}
