// Reads a setting of the jobs as it is on this machine.

import { readOwn } from './file-steps.ts'
import type { Place } from './install-places.ts'

/** The value of a setting; undefined for one that is not set. Throws bad_file as `readOwn` does. */
export function readSetting({ settings }: Pick<Place, 'settings'>, name: string): string | undefined {
  const [, value] = new RegExp(`^${name}=(.*)$`, 'm').exec(readOwn(settings) ?? '') ?? []
  return value?.replace(/^'(.*)'$/, '$1')
}
