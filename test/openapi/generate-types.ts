// TypeScript types of the API, generated from its description: once for each, because the generator takes a second.

import { hash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const KEPT = join(ROOT, 'dist/.types')

/** The text of the generated types. */
export async function generateTypes(description: unknown): Promise<string> {
  // Other versions of the packages may generate other types of the same description.
  const made = [JSON.stringify(description), readFileSync(join(ROOT, 'package-lock.json'), 'utf8')]
  const file = join(KEPT, `${hash('sha256', made.join('\n'))}.d.ts`)
  if (existsSync(file)) return readFileSync(file, 'utf8')
  const types = await generate(description)
  mkdirSync(KEPT, { recursive: true })
  writeFileSync(`${file}.${process.pid}`, types)
  renameSync(`${file}.${process.pid}`, file)
  return types
}

async function generate(description: unknown): Promise<string> {
  // The generator writes syntax trees with TypeScript's own library, which the current compiler no longer has.
  const hooks = registerHooks({
    resolve: (name, context, next) => next(name === 'typescript' ? 'typescript-5' : name, context),
  })
  try {
    const { default: openapiTS, astToString } = await import('openapi-typescript')
    return astToString(await openapiTS(structuredClone(description) as never))
  } finally {
    hooks.deregister()
  }
}
