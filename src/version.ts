// The version of this program, as package.json says it.

import manifest from '../package.json' with { type: 'json' }

export const VERSION: string = manifest.version
