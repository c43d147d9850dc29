// What --db names: a file, or a database on a server. A URL may hold a password, which belongs in no output.

const SERVER = /^postgres(ql)?:\/\//

/** Whether it names a database on a PostgreSQL server. Anything else is a file. */
export const isServer = (db: string): boolean => SERVER.test(db)

/** The same as it may be shown and logged: without a password. */
export function shownAddress(db: string): string {
  if (!isServer(db)) return db
  try {
    const url = new URL(db)
    if (url.password !== '') url.password = '***'
    if (url.searchParams.has('password')) url.searchParams.set('password', '***')
    return url.href
  } catch {
    return 'postgres://***'
  }
}
