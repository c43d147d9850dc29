// Execution ids: a UUIDv7 (RFC 9562) as 32 hex digits behind `exec_`, made so that each is above the one before.

import type { Instant } from './instant.ts'

export type ExecutionId = string & { readonly id: 'execution' }

const PREFIX = 'exec_'
const RANDOM_BITS = 74n
const RANDOM_MAX = (1n << RANDOM_BITS) - 1n

/**
 * The next execution id after `previous`, the highest one given out so far.
 * Ids rise strictly in creation order, whatever the clock does: within a millisecond, and after a step backwards,
 * the time part of the previous id is kept and its random part counted up (RFC 9562, 6.2, method 2).
 * @param entropy at least ten random bytes
 */
export function nextExecutionId(
  previous: ExecutionId | null,
  now: Instant,
  entropy: Uint8Array,
): ExecutionId {
  const random = fromBytes(entropy) & RANDOM_MAX
  if (previous === null) return assemble(BigInt(now), random >> 1n)
  const last = takeApart(previous)
  if (BigInt(now) > last.ms) return assemble(BigInt(now), random >> 1n)
  // A step of up to 2^32 keeps neighbours unguessable while half the space leaves 2^41 of them per millisecond.
  const counted = last.random + 1n + (random & 0xffff_ffffn)
  return counted <= RANDOM_MAX ? assemble(last.ms, counted) : assemble(last.ms + 1n, random >> 1n)
}

function assemble(ms: bigint, random: bigint): ExecutionId {
  const high = random >> 62n
  const low = random & ((1n << 62n) - 1n)
  const value = (ms << 80n) | (7n << 76n) | (high << 64n) | (2n << 62n) | low
  return (PREFIX + value.toString(16).padStart(32, '0')) as ExecutionId
}

function takeApart(id: ExecutionId): { ms: bigint; random: bigint } {
  const value = BigInt(`0x${id.slice(PREFIX.length)}`)
  const high = (value >> 64n) & 0xfffn
  return { ms: value >> 80n, random: (high << 62n) | (value & ((1n << 62n) - 1n)) }
}

const fromBytes = (bytes: Uint8Array): bigint => BigInt(`0x${bytes.toHex()}`)
