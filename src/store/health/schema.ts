// Compares a schema with the one that the migrations make of an empty database, so that no list has to be maintained.
// Parts that change a write must not differ; additions for reading do no harm, and are listed.

import type { Fault } from '../monitoring.ts'

/** A table, column, index and so on. A `binding` part changes writes, so an added one counts too. */
export type Part = { kind: string; name: string; definition: string; binding: boolean }

export type SchemaDifferences = {
  differs: { what: 'is missing' | 'was changed' | 'was added'; part: Part }[]
  /** Harmless additions, by kind and name. */
  additions: string[]
}

export function compareSchemas(expected: readonly Part[], found: readonly Part[]): SchemaDifferences {
  const nameOf = ({ kind, name }: Part): string => `${kind} ${name}`
  const there = new Map(found.map((part) => [nameOf(part), part.definition]))
  const known = new Set(expected.map(nameOf))
  const added = found.filter((part) => !known.has(nameOf(part)))
  const tables = new Set(added.filter(({ kind }) => kind === 'table').map(({ name }) => name))
  // An added table belongs to whoever added it: only parts attached to ours count.
  const isOfAdded = ({ name }: Part) => tables.has(/^[^ .]+/.exec(name)?.[0] ?? '')
  return {
    differs: [
      ...expected.flatMap((part): SchemaDifferences['differs'] => {
        const definition = there.get(nameOf(part))
        if (definition === part.definition) return []
        return [{ what: definition === undefined ? 'is missing' : 'was changed', part }]
      }),
      ...added.flatMap((part): SchemaDifferences['differs'] =>
        part.binding && !isOfAdded(part) ? [{ what: 'was added', part }] : [],
      ),
    ],
    additions: added
      .filter((part) => !part.binding && (part.kind === 'table' || !isOfAdded(part)))
      .map(nameOf),
  }
}

/** `next` is the command that shows the schema, where there is one. */
export const schemaFaults = ({ differs }: SchemaDifferences, next?: readonly string[]): Fault[] =>
  differs.map(({ what, part: { kind, name } }) => ({
    ...(next && { next }),
    kind: 'schema_differs',
    subject: `${kind} ${name}`,
    message: `${what} since the migrations made it: put it back, because whatever relies on it may be wrong`,
  }))

/** The first differences, as the end of a sentence about a schema. */
export function differencesInWords({ differs }: SchemaDifferences): string {
  const named = differs.slice(0, NAMED_MAX).map(({ what, part }) => `${part.kind} ${part.name} ${what}`)
  const more = differs.length - named.length
  return `differs from what the migrations make: ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

const NAMED_MAX = 5
