// The first partner and its first key, made by the program that was just installed.

import type { Place } from './install-places.ts'
import { runInstalled, runWriting } from './run-installed.ts'

export type FirstPartner = { slug: string; name: string; environment: 'live' | 'test' }

/** As key create prints it: the only time that the key is shown. */
export type IssuedKey = { key_id: string; key: string }

/**
 * What was made. What already exists is not made again: neither the partner, nor a key while one of the partner's keys
 * works.
 */
export async function addFirstPartner(
  place: Place,
  { slug, name, environment }: FirstPartner,
): Promise<{ made: boolean; key: IssuedKey | null }> {
  const partners = runInstalled(place, ['partner', 'list']) as { partner_slug: string }[]
  const made = !partners.some((partner) => partner.partner_slug === slug)
  if (made) await runWriting(place, ['partner', 'create', slug, '--name', name])
  const keys = runInstalled(place, ['key', 'list', slug]) as { environment: string; usable: boolean }[]
  if (keys.some((key) => key.environment === environment && key.usable)) return { made, key: null }
  const issue = ['key', 'create', slug, '--env', environment, '--label', 'made by init']
  return { made, key: (await runWriting(place, issue)) as IssuedKey }
}
