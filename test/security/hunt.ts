// A search for secrets in the bytes that a program leaves: verbatim, without their prefix, and in the usual encodings.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The random part of an API key, which alone suffices to rebuild it, and of a webhook secret. */
const core = (secret: string): string => secret.replace(/^sse_[a-z]+_/, '').slice(0, 40)

export type Hunt = {
  /** Fails when any of the secrets is in `bytes`. */
  assertClean: (bytes: string | Uint8Array, where: string) => void
  /** Fails when any of them is in a file of the folder, or of a folder inside it. */
  assertCleanFolder: (folder: string) => void
}

/**
 * The common part of the base64 of every text that contains `plain` after `before` bytes, counted modulo three: a
 * character at either edge has bits of a neighbour as well.
 */
function inBase64(plain: Buffer, before: number): Buffer {
  const text = Buffer.concat([Buffer.alloc(before), plain]).toString('base64')
  return Buffer.from(text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + plain.length) * 8) / 6)))
}

/** `secrets` by name, each as long as a secret is: a short one would be found by accident. */
export function huntFor(secrets: Record<string, string>): Hunt {
  const forms = Object.entries(secrets).flatMap(([name, secret]) => {
    assert.ok(core(secret).length >= 16, `${name} is a secret`)
    // A match of the core is a match of the whole secret.
    const plain = Buffer.from(core(secret))
    const hex = plain.toString('hex')
    return [
      { name, form: plain },
      ...[0, 1, 2].map((before) => ({ name: `${name} in base64`, form: inBase64(plain, before) })),
      ...[hex, hex.toUpperCase()].map((text) => ({ name: `${name} in hex`, form: Buffer.from(text) })),
      { name: `${name} in UTF-16`, form: Buffer.from(plain.toString(), 'utf16le') },
    ]
  })
  const assertClean: Hunt['assertClean'] = (bytes, where) => {
    const seen = Buffer.from(bytes)
    for (const { name, form } of forms) assert.ok(!seen.includes(form), `${name} is in ${where}`)
  }
  return {
    assertClean,
    assertCleanFolder(folder) {
      const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) =>
        one.isFile(),
      )
      assert.ok(files.length > 0, folder)
      for (const { parentPath, name } of files) {
        const file = join(parentPath, name)
        assertClean(readFileSync(file), file)
      }
    },
  }
}
