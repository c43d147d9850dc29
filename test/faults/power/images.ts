// Possible contents of a disk after a power cut: rebuilt from a record of all operations on a folder (record.c).
//
// The disk is like ext4. A synced file has everything written before the sync began; each later write is there, or not,
// or in part. Names change in their order, and up to some point in it: a sync of the folder brings all of them to disk,
// a sync of a file those up to its own. The index of a log is mapped memory, which nobody syncs: any older one may be
// there.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

type Bytes = { bytes: Buffer; size: number }
type Change = { at: number; bytes: Buffer } | { size: number }
type File = { durable: Bytes; pending: { nr: number; change: Change }[] }
type Naming = { nr: number; file: File | null; from: string | null; to: string | null }

type Entry = {
  nr: number
  kind: string
  inode: bigint
  first: bigint
  name: string
  other: string
  data: Buffer
}

const HEAD_BYTES = 44

/** The recorded operations, in their order. */
export function entriesOf(log: Buffer): Entry[] {
  const entries: Entry[] = []
  for (let at = 0; at < log.length; at += log.readUInt32LE(at)) {
    const [name, other] = [log.readUInt32LE(at + 32), log.readUInt32LE(at + 36)]
    const text = at + HEAD_BYTES
    entries.push({
      nr: entries.length,
      kind: String.fromCharCode(log.readUInt32LE(at + 4)),
      inode: log.readBigUInt64LE(at + 8),
      first: log.readBigUInt64LE(at + 16),
      name: log.toString('utf8', text, text + name),
      other: log.toString('utf8', text + name, text + name + other),
      data: log.subarray(text + name + other, at + log.readUInt32LE(at)),
    })
  }
  return entries
}

/** An entry that records an answer, in its place among the others. */
export function markOf(data: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32LE(HEAD_BYTES + data.length, 0)
  head.writeUInt32LE('m'.charCodeAt(0), 4)
  head.writeUInt32LE(data.length, 40)
  return Buffer.concat([head, data])
}

/** The folder as it is, all of it on disk. */
export type Start = { name: string; inode: bigint; bytes: Buffer }[]

export const startOf = (folder: string): Start =>
  readdirSync(folder).map((name) => ({
    name,
    inode: statSync(join(folder, name), { bigint: true }).ino,
    bytes: readFileSync(join(folder, name)),
  }))

export type Disk = {
  /** Replays the record up to the entry with that number, which is not applied. */
  goTo: (nr: number) => void
  /** Writes one possible result of a cut at this moment into an empty folder. */
  cut: (into: string, random: () => number) => void
}

export function createDisk(start: Start, entries: readonly Entry[]): Disk {
  const files = new Map<bigint, File>()
  const durable = new Map<string, File>()
  const names = new Map<string, File>()
  const indexes = new Map<string, Entry[]>()
  const begun = new Map<bigint, number>()
  let namings: Naming[] = []
  let next = 0

  for (const { name, inode, bytes } of start) {
    if (isIndex(name)) continue
    const file: File = { durable: { bytes: Buffer.from(bytes), size: bytes.length }, pending: [] }
    files.set(inode, file)
    names.set(name, file)
    durable.set(name, file)
  }

  function name(nr: number, file: File | null, from: string | null, to: string | null): void {
    if (from !== null) names.delete(from)
    if (to !== null && file) names.set(to, file)
    namings.push({ nr, file, from, to })
  }

  function synced({ name: path, inode, first }: Entry): void {
    const before = begun.get(first) ?? 0
    const file = files.get(inode)
    // The folder itself has no name in it.
    let last = path === '' ? before : -1
    if (file) {
      for (const { change } of file.pending.filter(({ nr }) => nr < before)) apply(file.durable, change)
      file.pending = file.pending.filter(({ nr }) => nr >= before)
      last = namings.findLast((naming) => naming.file === file && naming.nr < before)?.nr ?? -1
    }
    for (const naming of namings) if (naming.nr <= last) rename(durable, naming)
    namings = namings.filter(({ nr }) => nr > last)
  }

  function done(entry: Entry): void {
    const { nr, kind, inode, first, name: path, other, data } = entry
    const file = files.get(inode)
    switch (kind) {
      case 'c': {
        const made: File = { durable: { bytes: Buffer.alloc(0), size: 0 }, pending: [] }
        files.set(inode, made)
        name(nr, made, null, path)
        break
      }
      case 'w':
        file?.pending.push({ nr, change: { at: Number(first), bytes: data } })
        break
      case 't':
        file?.pending.push({ nr, change: { size: Number(first) } })
        break
      case 'r':
        name(nr, names.get(path) ?? null, path, other)
        break
      case 'l':
        name(nr, names.get(path) ?? null, null, other)
        break
      case 'u':
        name(nr, names.get(path) ?? null, path, null)
        break
      case 'b':
        begun.set(first, nr)
        break
      case 'e':
        synced(entry)
        break
      case 's':
        indexes.set(path, [...(indexes.get(path) ?? []), entry])
        break
    }
  }

  return {
    goTo(nr) {
      for (; next < nr; next++) done(entries[next] ?? assert.fail())
    },
    cut(into, random) {
      const there = new Map(durable)
      const upTo =
        [0, namings.length, Math.floor(random() * (namings.length + 1))][Math.floor(random() * 3)] ?? 0
      for (const naming of namings.slice(0, upTo)) rename(there, naming)
      for (const [path, file] of there)
        writeFileSync(join(into, path), contentOf(file, random), { mode: 0o600 })
      for (const [path, versions] of indexes) {
        if (random() < 0.3) continue
        const index: Bytes = { bytes: Buffer.alloc(0), size: 0 }
        // Newer versions are more likely.
        const count = Math.ceil((1 - random() ** 2) * versions.length)
        for (const { first, data } of versions.slice(0, count))
          apply(index, { at: Number(first), bytes: data })
        writeFileSync(join(into, path), index.bytes.subarray(0, index.size), { mode: 0o600 })
      }
    },
  }
}

const isIndex = (name: string): boolean => name.endsWith('-shm')

function rename(names: Map<string, File>, { file, from, to }: Naming): void {
  if (from !== null) names.delete(from)
  if (to !== null && file) names.set(to, file)
}

function apply(content: Bytes, change: Change): void {
  const end = 'size' in change ? change.size : change.at + change.bytes.length
  if (end > content.bytes.length) {
    const longer = Buffer.alloc(Math.max(end, 2 * content.bytes.length))
    content.bytes.copy(longer, 0, 0, content.size)
    content.bytes = longer
  }
  if ('size' in change) {
    content.bytes.fill(0, change.size, content.size)
    content.size = change.size
    return
  }
  change.bytes.copy(content.bytes, change.at)
  content.size = Math.max(content.size, end)
}

/** The contents of a file on the disk: everything synced, and a random part of the rest. */
function contentOf({ durable, pending }: File, random: () => number): Buffer {
  if (pending.length === 0) return durable.bytes.subarray(0, durable.size)
  const content = { bytes: Buffer.from(durable.bytes.subarray(0, durable.size)), size: durable.size }
  const how = Math.floor(random() * 5)
  const upTo = [0, pending.length, Math.floor(random() * (pending.length + 1))][how] ?? pending.length
  for (const { change } of pending.slice(0, upTo)) {
    if (how < 3) apply(content, change)
    else if ('size' in change || how === 3) {
      if (random() < 0.5) apply(content, change)
    } else for (const part of torn(change, random)) apply(content, part)
  }
  return content.bytes.subarray(0, content.size)
}

/** The sectors of a write that reached the disk. */
function torn({ at, bytes }: { at: number; bytes: Buffer }, random: () => number): Change[] {
  const sector = random() < 0.5 ? 512 : 4096
  const parts: Change[] = []
  for (let from = at; from < at + bytes.length; ) {
    const to = Math.min(at + bytes.length, (Math.floor(from / sector) + 1) * sector)
    if (random() < 0.5) parts.push({ at: from, bytes: bytes.subarray(from - at, to - at) })
    from = to
  }
  return parts
}

/** Throws unless the whole record gives the folder as it is: else some operation bypassed the recorder. */
export function assertComplete(
  start: Start,
  entries: readonly Entry[],
  folder: string,
  scratch: string,
): void {
  const disk = createDisk(start, entries)
  disk.goTo(entries.length)
  // Every pending write has happened.
  let draws = 0
  disk.cut(scratch, () => (++draws === 2 ? 0.5 : 0.21))
  const list = (of: string) => readdirSync(of).filter((name) => !isIndex(name))
  assert.deepEqual(list(scratch).sort(), list(folder).sort(), 'names that the recorder has not seen')
  for (const name of list(folder))
    assert.ok(
      readFileSync(join(scratch, name)).equals(readFileSync(join(folder, name))),
      `${name} was changed unseen`,
    )
}
