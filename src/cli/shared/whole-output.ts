// What a command prints where a shell sends that into a file: all of it, or an error.

import { fstatSync, writeSync } from 'node:fs'
import { Writable } from 'node:stream'

/**
 * The stream to print to in place of `usual`, which is that of the file descriptor. For a file, Node's own stream takes
 * a write that fitted only in part, as when a disk fills up, for a whole one.
 */
export function wholeOutput<S extends NodeJS.WritableStream>(usual: () => S, fd: number): S | Writable {
  return isFile(fd) ? fileOutput(fd) : usual()
}

const fileOutput = (fd: number): Writable =>
  new Writable({
    // A process may end right after what it has printed last: nothing is left for later.
    write(chunk: Buffer, _encoding, done) {
      try {
        for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at)
        done()
      } catch (error) {
        done(error as Error)
      }
    },
  })

function isFile(fd: number): boolean {
  try {
    return fstatSync(fd).isFile()
  } catch {
    // The parent process has closed it.
    return false
  }
}
