// What PostgreSQL's errors mean: a sentence for whoever reads them, and what may be tried again.

import pg from 'pg'
import { Problem } from '../../../core/problem.ts'

/** SQLSTATE of an error that the server sent; null for any other. */
export const sqlState = (error: unknown): string | null =>
  error instanceof pg.DatabaseError ? (error.code ?? null) : null

/** Whether a unique index has refused a row: somebody else was first, and a decision has to be made again. */
export const isTaken = (error: unknown): boolean => sqlState(error) === '23505'

/** Whether rows or the order of locks are to blame, and nothing was done: the same again may succeed. */
export const isTransient = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error) ?? '')

/** Errors of sockets and name servers, as Node calls them. */
const OF_SOCKETS = /^(E(CONN|PIPE|HOST|NET|TIMEDOUT|AI_AGAIN)|ENOTFOUND|ENOENT|EACCES)/

/** Whether the connection is gone, or the server takes no work: what was under way is undone unless it was committed. */
export function isLost(error: unknown): boolean {
  const state = sqlState(error)
  if (state !== null) return /^(08|57P0)/.test(state) || ['53300', '25006'].includes(state)
  if (!(error instanceof Error)) return false
  const { code } = error as NodeJS.ErrnoException
  return (
    (code !== undefined && OF_SOCKETS.test(code)) ||
    /Connection (terminated|ended)|connection error and is not queryable|timeout exceeded when trying to connect/.test(
      error.message,
    )
  )
}

/** An error of the server as a Problem that names it; any other as it is. `server` is the address without a password. */
export function explained(error: unknown, server: string): unknown {
  if (error instanceof Problem) return error
  const state = sqlState(error) ?? ''
  const message = (error as Error).message
  if (state === '55P03' || state === '57014')
    return new Problem('database_locked', `The database ${server} stayed locked by others for too long.`)
  if (state === '53300')
    return new Problem('database_locked', `${server} has no connection left: raise its max_connections.`)
  if (state === '3D000')
    return new Problem('database_not_found', `${server} has no such database: make it with createdb.`)
  if (/^28/.test(state)) return new Problem('storage_failed', `${server} lets nobody in: ${message}.`)
  if (/^(53|58)/.test(state))
    return new Problem('storage_failed', `The disk or memory of ${server} is full or fails: ${message}.`)
  if (/^XX00[12]/.test(state)) return new Problem('database_damaged', `${server} is damaged: ${message}.`)
  if (isLost(error)) return new Problem('storage_failed', `${server} cannot be reached: ${message}.`)
  return error
}

/** Whether the values of a row are to blame: without it, its transaction would have succeeded. */
export const isRowsFault = (error: unknown): boolean => /^2[23]/.test(sqlState(error) ?? '')

/** Whether an error concerns the whole database, and not one of its rows. */
export const isOutage = (error: unknown): boolean =>
  isLost(error) || (sqlState(error) !== null && !isRowsFault(error))
