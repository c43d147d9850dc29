// What the driver is told of an address. What an address leaves out the driver takes from the variables that PostgreSQL's own
// programs have for it: PGHOST, PGPASSWORD and so on.

import { readFileSync } from 'node:fs'
import type { ClientConfig } from 'pg'
import { type AddressValues, addressValues } from '../../address-parts.ts'

/** Throws what the system says of a file that the address names and that cannot be read. */
export function destinationOf(url: string): ClientConfig {
  const values = addressValues(url)
  const { host, port, user, password, dbname, options } = values
  return {
    ...(host === null ? {} : { host }),
    ...(port === null ? {} : { port: Number(port) }),
    ...(user === null ? {} : { user }),
    ...(password === null ? {} : { password }),
    ...(dbname === null ? {} : { database: dbname }),
    ...(options === null ? {} : { options }),
    ...tlsOf(values),
  }
}

/** Whatever asks for TLS has the certificate checked, and its name: to whom a password goes is the point of asking. */
function tlsOf({ host, sslmode, sslrootcert, sslcert, sslkey }: AddressValues): Pick<ClientConfig, 'ssl'> {
  // What goes over a socket of this machine is seen by nobody else, and the server offers no TLS there.
  if (sslmode === 'disable' || host?.startsWith('/')) return { ssl: false }
  if (sslmode === null && sslrootcert === null && sslcert === null && sslkey === null) return {}
  return {
    ssl: {
      ...(sslrootcert === null ? {} : { ca: readFileSync(sslrootcert, 'utf8') }),
      ...(sslcert === null ? {} : { cert: readFileSync(sslcert, 'utf8') }),
      ...(sslkey === null ? {} : { key: readFileSync(sslkey, 'utf8') }),
      ...(sslmode === 'no-verify' ? { rejectUnauthorized: false } : {}),
    },
  }
}
