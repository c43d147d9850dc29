// Gauges that are absent while there is nothing to tell.

import { Gauge, type Registry } from 'prom-client'
import { type Instant, SECOND_MS } from '../../core/instant.ts'

export type AddGauge = ReturnType<typeof gaugesOf>

/** Adds gauges of this program to a registry. */
export const gaugesOf =
  (registry: Registry) =>
  <L extends string = never>(name: string, help: string, labelNames: L[] = []): Gauge<L> =>
    new Gauge({ name: `tranche_${name}`, help, labelNames, registers: [registry] })

/** Sets a gauge, or removes it while there is nothing to tell: no alert rule fires on a gauge that is absent. */
export function setOrDrop(gauge: Gauge, value: number | null | undefined): void {
  if (value === null || value === undefined) gauge.remove()
  else gauge.set(value)
}

/** Seconds that have passed. */
export const since = (then: Instant, now: Instant): number => Math.max(0, now - then) / SECOND_MS
