// A look of the check: what it finds that may become wrong.

import type { Finding } from '../../../core/findings.ts'
import type { Instant } from '../../../core/instant.ts'

/** Test environments are passed over: what a developer leaves undone there is nobody's alarm. */
export type Look = (clock: () => Promise<Instant>) => Promise<Finding[]>
