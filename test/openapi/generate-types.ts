// TypeScript types of the API, generated from its description.

import { registerHooks } from 'node:module'

/** The text of the generated types. */
export async function generateTypes(description: unknown): Promise<string> {
  // The generator writes syntax trees with TypeScript's own library, which the compiler in use no longer has.
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
