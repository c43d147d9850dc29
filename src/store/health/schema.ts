// A schema held against what the migrations make of an empty database, so that no list has to be maintained. What a
// write does may not differ; what somebody added for reading does no harm, and is named.

import type { Fault } from '../monitoring.ts'

/**
 * A table, column, constraint, index, trigger and so on. One that is `binding` changes what a write does, so an added
 * one counts as well.
 */
export type Part = { kind: string; name: string; definition: string; binding: boolean }

export type SchemaDifferences = {
  differs: { what: 'is missing' | 'was changed' | 'was added'; part: Part }[]
  /** What somebody added that does no harm, by kind and name. */
  additions: string[]
}

export function compareSchemas(expected: readonly Part[], found: readonly Part[]): SchemaDifferences {
  const nameOf = ({ kind, name }: Part): string => `${kind} ${name}`
  const there = new Map(found.map((part) => [nameOf(part), part.definition]))
  const known = new Set(expected.map(nameOf))
  const added = found.filter((part) => !known.has(nameOf(part)))
  const tables = new Set(added.filter(({ kind }) => kind === 'table').map(({ name }) => name))
  // All of an added table is its owner's: only what hangs on ours counts.
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
