// Turns an address into what the driver is told. What the address leaves out, the driver takes from the variables of
// PostgreSQL's own programs: PGHOST, PGPASSWORD and so on.

import { readFileSync } from 'node:fs'
import type { ClientConfig } from 'pg'
import { Problem } from '../../../core/problem.ts'
import { shownAddress } from '../../address.ts'
import { type AddressValues, addressValues, isPort, PORT_MAX } from '../../address-parts.ts'

/** Throws usage, and storage_failed for a file that the address names and that cannot be read. */
export function destinationOf(url: string): ClientConfig {
  const values = addressValues(url)
  const { host, port, user, password, dbname, options } = values
  // With such a value, the driver never answers.
  if (port === null && !isPort(process.env.PGPORT || '5432'))
    throw new Problem('usage', `PGPORT is not a number from 1 to ${PORT_MAX}.`)
  return {
    ...(host === null ? {} : { host }),
    ...(port === null ? {} : { port: Number(port) }),
    ...(user === null ? {} : { user }),
    ...(password === null ? {} : { password }),
    ...(dbname === null ? {} : { database: dbname }),
    ...(options === null ? {} : { options }),
    ...tlsOf(values, (file) => textOf(file, url)),
  }
}

/**
 * Every mode that asks for TLS has the certificate and its name checked: knowing who gets the password is the point of
 * asking.
 */
function tlsOf(
  { host, sslmode, sslrootcert, sslcert, sslkey }: AddressValues,
  read: (file: string) => string,
): Pick<ClientConfig, 'ssl'> {
  // Nobody else sees what goes over a local socket, and the server offers no TLS there.
  if (sslmode === 'disable' || host?.startsWith('/')) return { ssl: false }
  if (sslmode === null && sslrootcert === null && sslcert === null && sslkey === null) return {}
  return {
    ssl: {
      ...(sslrootcert === null ? {} : { ca: read(sslrootcert) }),
      ...(sslcert === null ? {} : { cert: read(sslcert) }),
      ...(sslkey === null ? {} : { key: read(sslkey) }),
      ...(sslmode === 'no-verify' ? { rejectUnauthorized: false } : {}),
    },
  }
}

function textOf(file: string, url: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Problem(
      'storage_failed',
      `A file that the address of ${shownAddress(url)} names cannot be read (${(error as Error).message}): put the right one into it.`,
    )
  }
}
